# Installs $packages. Additional packages that the package manager installs are recorded
# in $packages_dir/installed. $packages_dir/installing exists while the installation is in
# progress, and after it was interrupted. It has the units that must not start, because a continued installation no
# longer knows which programs were there before. Go sets packages and units.
# shellcheck disable=SC2086 # $packages and $units are lists of words

mkdir -p "$packages_dir"
exec 8>"$packages_dir/lock"
flock 8
unmasked='' # whether units of packages that were installed may run
if [ -e "$packages_dir/installing" ]; then
  interrupted=yes
  if rebooted || grep -qs ' install ' "$packages_dir/dpkg.log"; then unmasked=yes; fi
  units=$(printf '%s\n' $units | sort -u - "$packages_dir/installing")
else
  # Of one that was cut off at its end.
  rm -f "$packages_dir/dpkg.log" "$packages_dir/wanted" "$packages_dir/before" "$packages_dir/boot"
fi
printf '%s\n' $units >"$packages_dir/installing.new"
flush "$packages_dir/installing.new"
mv "$packages_dir/installing.new" "$packages_dir/installing"
flush "$packages_dir" "${packages_dir%/*}"

# The distribution's own units must not start: the endpoint has its own units.
unmask() { [ -z "$units" ] || systemctl unmask --runtime --quiet $units; }
trap unmask EXIT
[ -z "$units" ] || systemctl mask --runtime --quiet $units

if [ ! -e "$packages_dir/wanted" ]; then
  present >"$packages_dir/before"
  cat /proc/sys/kernel/random/boot_id >"$packages_dir/boot"
  flush "$packages_dir/before" "$packages_dir/boot" "$packages_dir"
fi
printf '%s\n' $packages >>"$packages_dir/wanted"
flush "$packages_dir/wanted" "$packages_dir"
if command -v apt-get >/dev/null; then
  apt() { apt-get -q -y -o DPkg::Lock::Timeout=120 -o Dpkg::Options::=--force-confold -o Dpkg::Options::="--log=$packages_dir/dpkg.log" --no-install-recommends "$@"; }
  get() { apt install $packages; }
  repair() {
    dpkg --force-confold --configure -a || true
    # What was cut off while it was unpacked must be unpacked again, which --fix-broken leaves out.
    damaged=$(dpkg-query -W -f '${db:Status-Eflag} ${binary:Package}\n' | sed -n 's/^reinstreq //p')
    [ -z "$damaged" ] || apt --reinstall install $damaged || true
    apt --fix-broken install || true
  }
  [ -z "$interrupted" ] || repair >"$packages_dir/log" 2>&1 # apt refuses to continue an interrupted run
  get >"$packages_dir/log" 2>&1 || { apt update && get; } >"$packages_dir/log" 2>&1 ||
    { tail -n 20 "$packages_dir/log" >&2; exit 1; }
else
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
# A reboot, or the end of a run that has failed, has ended the masks, and a unit that was enabled by then runs.
if [ -n "$unmasked" ] && [ -n "$units" ]; then systemctl stop --quiet $units 2>/dev/null || true; fi
brought >"$packages_dir/installed.new"
flush_packages # includes installed.new
mv "$packages_dir/installed.new" "$packages_dir/installed"
# The machine's own package log stays complete.
if [ -e "$packages_dir/dpkg.log" ] && [ -e /var/log/dpkg.log ]; then cat "$packages_dir/dpkg.log" >>/var/log/dpkg.log; fi
rm -f "$packages_dir/installing" "$packages_dir/dpkg.log" "$packages_dir/wanted" "$packages_dir/before" \
  "$packages_dir/boot" "$packages_dir/log"
flush "$packages_dir"
