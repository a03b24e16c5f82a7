# Gives the machine the address (up) and takes it away (down). Go sets prefix, own (the machine's own
# address) and state, a directory that ends with the unit.

set -eu

case $1 in
up)
  echo "$prefix" >"$state/prefix"
  case $own in
  *.*)
    # After a boot, the network may be late.
    for _ in $(seq 60); do
      device=$(ip -o address show to "$own" | awk '{ print $2; exit }')
      [ -z "$device" ] || break
      sleep 1
    done
    [ -n "$device" ] || { echo "no interface has the address $own" >&2; exit 1; }
    ;;
  esac
  hold_address
  ;;
down)
  if [ -e "$state/prefix" ]; then
    ip address delete "$(cat "$state/prefix")" dev lo 2>/dev/null || true
  fi
  reset_interface
  ;;
esac
