# Installs $packages. What the package manager brings beyond them is remembered
# in $state/installed; $state/before is what a run that was cut off had found, and
# $state/planned what it was going to bring.

mkdir -p "$state"
exec 8>"$state/lock"
flock 8
again=''
if [ -e "$state/before" ]; then
  again=yes
else
  listed >"$state/before.new"
  mv "$state/before.new" "$state/before"
fi

# The distribution's own units must not start: the endpoint has its own.
units=''
for package in $packages; do
  [ "$package" = socat ] || units="$units $package.service"
done
unmask() { [ -z "$units" ] || systemctl unmask --runtime --quiet $units; }
trap unmask EXIT
[ -z "$units" ] || systemctl mask --runtime --quiet $units

if command -v apt-get >/dev/null; then
  apt() { apt-get -q -y -o DPkg::Lock::Timeout=120 -o Dpkg::Options::=--force-confold --no-install-recommends "$@"; }
  get() {
    apt --simulate install $packages | sed -nE 's/^Inst ([^ ]+).*/\1/p' >>"$state/planned"
    apt install $packages
  }
  if [ -n "$again" ]; then # apt refuses to work on what was cut off
    { dpkg --force-confold --configure -a || true; apt --fix-broken install || true; } >"$state/log" 2>&1
  fi
  get >"$state/log" 2>&1 || { apt update && get; } >"$state/log" 2>&1 ||
    { tail -n 5 "$state/log" >&2; exit 1; }
elif command -v dnf >/dev/null; then
  dnf -q -y --setopt=install_weak_deps=False install $packages >&2
elif command -v yum >/dev/null; then
  yum -q -y install $packages >&2
else
  zypper --quiet --non-interactive install --no-recommends $packages >&2
fi

unmask
trap - EXIT
[ -z "$units" ] || systemctl disable --quiet $units 2>/dev/null || true
{
  [ ! -e "$state/installed" ] || cat "$state/installed"
  listed | comm -13 "$state/before" -
} | sort -u >"$state/installed.new"
mv "$state/installed.new" "$state/installed"
rm -f "$state/before" "$state/planned" "$state/log"
