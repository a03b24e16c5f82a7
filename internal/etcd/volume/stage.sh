# Prepares the release of the volume, before anything is stopped: writes its identity $identity beside the present one.
# It fails if the volume has no space, or would stay mounted in another mount namespace.
if find_volume && in_place; then
  user=$(stuck_on_volume)
  if [ -n "$user" ]; then
    echo "the volume $volume cannot be released: process ${user% *} has it mounted at ${user#* }, in its mount namespace," \
      "and would keep it: systemctl status ${user% *} says what it is" >&2
    exit 1
  fi
  if [ -n "$identity" ]; then stage_identity "$identity"; fi
fi
