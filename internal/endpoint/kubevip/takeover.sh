# complete_takeover: ends a takeover from a static pod. The kubelet does not get the manifest back any more, and a copy
# of it stays.
complete_takeover() {
  for former in "$config"/inherited/*.pending; do
    [ -e "$former" ] || continue
    mv "$former" "${former%.pending}"
    flush "$config/inherited"
  done
}
