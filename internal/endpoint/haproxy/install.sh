# Installs $packages. Additional packages that the package manager installs are recorded
# in $state/installed. $state/installing exists while the installation is in progress, and
# after it was interrupted.
# shellcheck disable=SC2086 # $packages and $units are lists of words

mkdir -p "$state"
exec 8>"$state/lock"
flock 8
again=''
[ ! -e "$state/installing" ] || again=yes
: >"$state/installing"
flush "$state/installing" "$state" "${state%/*}"

# The distribution's own units must not start: the endpoint has its own units.
units=''
for package in $packages; do
  [ "$package" = socat ] || units="$units $package.service"
done
unmask() { [ -z "$units" ] || systemctl unmask --runtime --quiet $units; }
trap unmask EXIT
[ -z "$units" ] || systemctl mask --runtime --quiet $units

if command -v apt-get >/dev/null; then
  apt() { apt-get -q -y -o DPkg::Lock::Timeout=120 -o Dpkg::Options::=--force-confold -o Dpkg::Options::="--log=$state/dpkg.log" --no-install-recommends "$@"; }
  get() { apt install $packages; }
  if [ -n "$again" ]; then # apt refuses to continue an interrupted run
    { dpkg --force-confold --configure -a || true; apt --fix-broken install || true; } >"$state/log" 2>&1
  fi
  get >"$state/log" 2>&1 || { apt update && get; } >"$state/log" 2>&1 ||
    { tail -n 5 "$state/log" >&2; exit 1; }
else
  if [ ! -e "$state/wanted" ]; then
    rpm -qa --qf '%{NAME}\n' | sort -u >"$state/before"
  fi
  printf '%s\n' $packages >>"$state/wanted"
  if command -v dnf >/dev/null; then
    dnf -q -y --setopt=install_weak_deps=False install $packages >&2
  elif command -v yum >/dev/null; then
    yum -q -y install $packages >&2
  else
    ZYPP_SINGLE_RPMTRANS=1 zypper --quiet --non-interactive install --no-recommends $packages >&2
  fi
fi

unmask
trap - EXIT
[ -z "$units" ] || systemctl disable --quiet $units 2>/dev/null || true
brought >"$state/installed.new"
flush_packages # includes installed.new
mv "$state/installed.new" "$state/installed"
# The machine's own package log stays complete.
if [ -e "$state/dpkg.log" ] && [ -e /var/log/dpkg.log ]; then cat "$state/dpkg.log" >>/var/log/dpkg.log; fi
rm -f "$state/installing" "$state/dpkg.log" "$state/wanted" "$state/before" "$state/log"
flush "$state"
