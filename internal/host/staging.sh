# Shared by apply.sh and install.sh: new content is written next to its target as
# .NAME.kube-PID-TOKEN and then renamed. Paths have no white space and no pattern
# characters (Go rejects them).
set -f
trap : PIPE # the output is no longer read: fail and clean up
unflushed='' # directories and files that are not on the disk yet

# flush_later PATH: see flush.sh.
flush_later() {
  case " $unflushed " in *" $1 "*) ;; *) unflushed="$unflushed $1" ;; esac
}

# flush_changes: one call for everything that was changed.
# shellcheck disable=SC2086 # paths without white space and patterns
flush_changes() {
  flush $unflushed
  unflushed=''
}

# make_parents PATH: creates the directory that PATH is in.
make_parents() {
  created=${1%/*}
  until [ -d "$created/" ]; do
    created=${created%/*}
    flush_later "$created/"
  done
  (umask 022 && mkdir -p -- "${1%/*}/")
}

# staging_name PATH: sets $new.
# shellcheck disable=SC2034 # both scripts use it
staging_name() {
  new="${1%/*}/.${1##*/}.kube-$$-$token"
}

# sweep PATH: removes the leftovers of an interrupted staging next to PATH, but not files
# of a running staging by root: the remote side does not end at once when the connection
# is lost.
sweep() {
  set +f
  for left in "${1%/*}/.${1##*/}.kube-"*; do
    [ -e "$left" ] || [ -L "$left" ] || continue
    owner=${left##*.kube-}
    if ! grep -qs '^Uid:[[:space:]]0[[:space:]]' "/proc/${owner%%-*}/status" || ! grep -qsF -- "token=${owner#*-}" "/proc/${owner%%-*}/cmdline"; then
      rm -rf -- "$left"
    fi
  done
  set -f
}
