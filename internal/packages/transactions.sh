# Determines which packages the package manager installed for the endpoint, excluding
# those that others installed at the same time. Each transaction identifies them itself:
# dpkg by a separate log, rpm by the ID that all packages of a transaction have.
# Go sets packages_dir.
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
interrupted='' # whether the installation was interrupted

# brought prints the packages, including those of an interrupted transaction.
brought() {
  {
    [ ! -e "$packages_dir/installed" ] || cat "$packages_dir/installed"
    if command -v dpkg >/dev/null; then
      [ ! -e "$packages_dir/dpkg.log" ] ||
        awk '$3 == "install" { sub(/:.*/, "", $4); print $4 }' "$packages_dir/dpkg.log"
      if rebooted; then unlogged; fi
    elif [ -e "$packages_dir/wanted" ]; then
      came
    fi
  } | sort -u
}

# flush_packages: package managers do not flush everything that they write. dpkg leaves out
# configuration files, and rpm flushes no file unless it is configured to.
flush_packages() {
  sync -f / /usr /etc /var 2>/dev/null || sync
}

# rebooted: whether the machine was booted after the beginning of the installation that was interrupted. Without that,
# dpkg's log is complete, and what is new beside it is somebody else's.
rebooted() {
  [ -n "$interrupted" ] && [ -e "$packages_dir/wanted" ] && [ -e "$packages_dir/boot" ] &&
    [ "$(cat "$packages_dir/boot")" != "$(cat /proc/sys/kernel/random/boot_id)" ]
}

# present prints the packages that are on the machine, completely or in part.
present() {
  if command -v apt-get >/dev/null; then
    dpkg-query -W -f '${db:Status-Status} ${Package}\n' | sed '/^not-installed /d; /^config-files /d; s/.* //'
  else
    rpm -qa --qf '%{NAME}\n'
  fi | sort -u
}

# unlogged prints what is new since $packages_dir/before, and is in $packages_dir/wanted or was installed automatically
# for something that these depend on. dpkg flushes its status and not its log, which may be empty after a power cut.
# What others wished to install meanwhile is neither, nor what apt has recommended with it.
unlogged() {
  {
    present | comm -23 - "$packages_dir/before"
    {
      cat "$packages_dir/wanted"
      { depended; apt-mark showauto | sed 's/:.*//' | sort -u; } | sort | uniq -d
    } | sort -u
  } | sort | uniq -d
}

# depended prints the packages in $packages_dir/wanted, and all that they can depend on, over any number of others.
depended() {
  xargs apt-cache depends --recurse --important <"$packages_dir/wanted" | sed 's/.* //; s/[<>]//g; s/:.*//' | sort -u
}

# came prints the packages that rpm installed together with those in $packages_dir/wanted.
# Packages that were installed before were only updated.
came() {
  transactions=$(xargs rpm -q --qf '%{INSTALLTID}\n' <"$packages_dir/wanted" | grep -x '[0-9]*' | sort -u)
  rpm -qa --qf '%{INSTALLTID} %{NAME}\n' | awk -v known="$transactions" '
    BEGIN { n = split(known, ids, "\n"); for (i = 1; i <= n; i++) ours[ids[i]] = 1 }
    $1 in ours { print $2 }' | sort -u | comm -23 - "$packages_dir/before"
}
