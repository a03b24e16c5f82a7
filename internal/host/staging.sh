# Shared by apply.sh and install.sh: new content is written beside its target as
# .NAME.kube-PID-TOKEN and renamed. Paths hold no white space and no pattern
# characters (Go refuses them).
set -f
trap : PIPE # nobody reads what we say any more: fail, and clean up

# staging_name PATH: sets $new.
# shellcheck disable=SC2034 # both scripts use it
staging_name() {
  new="${1%/*}/.${1##*/}.kube-$$-$token"
}

# sweep PATH: removes what a staging that was cut off left beside PATH, but not
# what one of root's that still runs is using: this side does not end at once when
# the connection is lost.
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
