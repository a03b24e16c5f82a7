# Prepares the release of the volume, before anything is stopped: writes its identity $identity beside the present one.
# It fails if the volume has no space, or would stay mounted. What looks at the machine now may need a moment.
if find_volume && in_place; then
  tries=5
  while user=$(stuck_on_volume) && [ -n "$user" ]; do
    tries=$((tries - 1))
    if [ "$tries" -le 0 ]; then
      echo "the volume $volume cannot be released: $(place_of "$user")" >&2
      exit 1
    fi
    sleep 1
  done
  if [ -n "$identity" ]; then stage_identity "$identity"; fi
fi
