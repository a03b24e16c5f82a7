# Starts the agent. Go sets install, yes or no: whether missing programs may be installed, and timer.
missing=''
for program in nsupdate dig curl; do
  command -v "$program" >/dev/null || missing="$missing $program"
done
if [ -n "$missing" ]; then
  if [ "$install" != yes ]; then
    echo "missing programs:$missing" >&2
    exit 3
  fi
  export DEBIAN_FRONTEND=noninteractive LC_ALL=C
  if command -v apt-get >/dev/null; then
    get() { apt-get -q -y -o DPkg::Lock::Timeout=120 --no-install-recommends install bind9-dnsutils curl; }
    get >/dev/null 2>&1 || { apt-get -q update && get; } >&2
  elif command -v dnf >/dev/null; then
    dnf -q -y --setopt=install_weak_deps=False install bind-utils curl >&2
  elif command -v zypper >/dev/null; then
    zypper --quiet --non-interactive install --no-recommends bind-utils curl >&2
  else
    echo "missing programs:$missing" >&2
    exit 3
  fi
fi
systemctl start "$timer"
case "$CHANGED" in
*"/$timer"*) systemctl restart "$timer" ;;
esac
