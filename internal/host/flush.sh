# flush PATH…: writes files and directories to the disk, so that a power cut does not revert
# them. A changed name belongs to its directory. Instead of a path that does not exist, the
# nearest directory above it is flushed.
flush() {
  [ $# -gt 0 ] || return 0
  for flushed; do
    shift
    until [ -e "$flushed" ]; do
      flushed=${flushed%/*}
      [ -n "$flushed" ] || flushed=/
    done
    set -- "$@" "$flushed"
  done
  sync -- "$@" 2>/dev/null || sync
}
