# Prints what the machine has of the volume, a line for each fact. It changes nothing.
(
  set +e
  echo "volume at $(mounted_here) $(awk -v at="$mount" '$5 == at { split($6, o, ","); s = o[1] } END { print s }' \
    /proc/self/mountinfo)"
  find_volume || exit 0
  echo "volume device $volume"
  for copy in $copies; do echo "volume copy $copy"; done
  echo "volume number $(number_of "$volume")"
  echo "volume size $(blockdev --getsize64 "$volume")"
  probe_volume
  echo "volume kind $kind"
  echo "volume uuid $(blkid -p -o value -s UUID -- "$volume" 2>/dev/null)"
  if damaged; then echo "volume damaged"; fi
  if in_place; then
    echo "volume readable"
    sh -c "$look" look "$mount" | sed 's/^/volume /'
    case $kind in
    ext4) LC_ALL=C dumpe2fs -h -- "$volume" 2>/dev/null |
      awk -F: '/^Block count/ { n = $2 } /^Block size/ { s = $2 } END { printf "volume used %.0f\n", n * s }' ;;
    xfs) LC_ALL=C xfs_info "$mount" 2>/dev/null |
      sed -n 's/^data .*bsize=\([0-9]*\) *blocks=\([0-9]*\),.*/\1 \2/p' |
      awk '{ printf "volume used %.0f\n", $1 * $2 }' ;;
    esac
  else
    users_of_volume | cut -d ' ' -f 2 | sed 's/^/volume elsewhere /' | head -n 1
    peek | sed 's/^/volume /'
  fi
)
