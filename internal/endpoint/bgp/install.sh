# Installs the missing ones of $packages. Additional packages that dpkg installs are recorded with
# them in $state/installed.
# shellcheck disable=SC2086 # $packages is a list of words
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
mkdir -p "$state"
exec 8>"$state/lock"
flock 8
again=''
[ ! -e "$state/installing" ] || again=yes
: >"$state/installing"
flush "$state/installing" "$state" "${state%/*}"

# The distribution's own unit must not start: the endpoint has its own.
unmask() { systemctl unmask --runtime --quiet bird.service; }
trap unmask EXIT
systemctl mask --runtime --quiet bird.service

if command -v apt-get >/dev/null; then
  apt() { apt-get -q -y -o DPkg::Lock::Timeout=120 -o Dpkg::Options::=--force-confold -o Dpkg::Options::="--log=$state/dpkg.log" --no-install-recommends "$@"; }
  get() { apt install $packages; }
  if [ -n "$again" ]; then # apt refuses to continue an interrupted run
    { dpkg --force-confold --configure -a || true; apt --fix-broken install || true; } >"$state/log" 2>&1
  fi
  get >"$state/log" 2>&1 || { apt update && get; } >"$state/log" 2>&1 || { tail -n 5 "$state/log" >&2; exit 1; }
  brought=$(awk '$3 == "install" { sub(/:.*/, "", $4); print $4 }' "$state/dpkg.log" 2>/dev/null || true)
elif command -v dnf >/dev/null; then
  dnf -q -y --setopt=install_weak_deps=False install $packages >&2
  brought=$packages
elif command -v yum >/dev/null; then
  yum -q -y install $packages >&2
  brought=$packages
elif command -v zypper >/dev/null; then
  zypper --quiet --non-interactive install --no-recommends $packages >&2
  brought=$packages
else
  echo "none of apt-get, dnf, yum and zypper is there: install $packages" >&2
  exit 1
fi
unmask
trap - EXIT
systemctl disable --quiet bird.service 2>/dev/null || true
{
  [ ! -e "$state/installed" ] || cat "$state/installed"
  printf '%s\n' $brought
} | sort -u >"$state/installed.new"
sync -f / /usr /etc /var 2>/dev/null || sync # package managers do not flush everything
mv "$state/installed.new" "$state/installed"
# The machine's own package log stays complete.
if [ -e "$state/dpkg.log" ] && [ -e /var/log/dpkg.log ]; then cat "$state/dpkg.log" >>/var/log/dpkg.log; fi
rm -f "$state/installing" "$state/dpkg.log" "$state/log"
flush "$state"
