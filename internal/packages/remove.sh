# Functions that remove what install.sh has installed. Go sets packages_dir, and packages_kept:
# PATH:PACKAGE of what other kinds of endpoints and timers need, each of which has its path.
# shellcheck disable=SC2086 # $brought is a list of words

# removable prints the packages that were installed for the endpoint, without those that something else
# on the machine needs.
removable() {
  needed=''
  for kept in $packages_kept; do
    [ ! -e "${kept%%:*}" ] || needed="$needed ${kept#*:}"
  done
  for package in $(brought); do
    case " $needed " in
    *" $package "*) ;;
    *) printf '%s\n' "$package" ;;
    esac
  done
}

# erase PACKAGE…: rpm removes all of them or none. If another package needs some, or some are gone
# already, the others are removed one by one.
erase() {
  rpm -e "$@" && return
  left="$*"
  while [ -n "$left" ]; do
    tried=$left left=''
    for package in $tried; do rpm -e "$package" || left="${left:+$left }$package"; done
    [ "$left" != "$tried" ] || break
  done
}

# unlocked COMMAND…: runs a command of a package manager, and again while another process holds the manager's lock.
unlocked() {
  unlocked_until=$(($(date +%s) + 120))
  until "$@" >"$packages_dir/log" 2>&1; do
    if ! grep -q lock "$packages_dir/log" || [ "$(date +%s)" -ge "$unlocked_until" ]; then return 1; fi
    sleep 1
  done
}

# remove_packages: only packages that the endpoint installed are removed, and of these only packages
# that nothing else requires by now: dpkg and rpm refuse to break another package. If the installation
# was interrupted, these are the packages that it installed until then. The caller flushes.
remove_packages() {
  if [ -e "$packages_dir/installing" ]; then
    interrupted=yes
    [ ! -s "$packages_dir/installing" ] || xargs -r systemctl unmask --runtime --quiet <"$packages_dir/installing"
    # A removal that is cut off too leaves packages that are no longer on the machine, and still have to be purged.
    brought >"$packages_dir/installed.new"
    flush_packages # includes installed.new
    mv "$packages_dir/installed.new" "$packages_dir/installed"
  fi
  brought=$(removable)
  if [ -n "$brought" ]; then
    again=''
    if [ -n "$interrupted" ] || [ -e "$packages_dir/purging" ]; then again=yes; fi
    : >"$packages_dir/purging"
    if command -v dpkg >/dev/null; then
      unlocked dpkg --force-remove-reinstreq --purge $brought || true
      # An interrupted run leaves triggers of other packages pending.
      [ -z "$again" ] || unlocked dpkg --force-confold --configure -a || true
    else
      unlocked erase $brought || true
    fi
  fi
  rm -rf "$packages_dir"
}
