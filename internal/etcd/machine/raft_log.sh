# raft_log FILE DIR: prints the beginning of the raft log in a data directory, if the file exists, as it does until a
# member is established. It prints nothing if the log has more than one file, or the member has a snapshot of it.
raft_log() (
  [ -e "$1" ] || exit 0
  data=$2
  set -- "$data"/member/snap/*.snap
  [ ! -e "$1" ] || exit 0
  set -- "$data"/member/wal/*.wal
  [ "$#" -eq 1 ] && [ -f "$1" ] || exit 0
  printf 'raft-log\t%s\n' "$(head -c 16384 -- "$1" | base64 -w 0)"
)
