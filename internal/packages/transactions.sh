# Determines which packages the package manager installed for the endpoint, excluding
# those that others installed at the same time. Each transaction identifies them itself:
# dpkg by a separate log, rpm by the ID that all packages of a transaction have.
# Go sets packages_dir.
export DEBIAN_FRONTEND=noninteractive LC_ALL=C

# brought prints the packages, including those of an interrupted transaction.
brought() {
  {
    [ ! -e "$packages_dir/installed" ] || cat "$packages_dir/installed"
    if command -v dpkg >/dev/null; then
      [ ! -e "$packages_dir/dpkg.log" ] ||
        awk '$3 == "install" { sub(/:.*/, "", $4); print $4 }' "$packages_dir/dpkg.log"
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

# came prints the packages that rpm installed together with those in $packages_dir/wanted.
# Packages that were installed before were only updated.
came() {
  transactions=$(xargs rpm -q --qf '%{INSTALLTID}\n' <"$packages_dir/wanted" | grep -x '[0-9]*' | sort -u)
  rpm -qa --qf '%{INSTALLTID} %{NAME}\n' | awk -v known="$transactions" '
    BEGIN { n = split(known, ids, "\n"); for (i = 1; i <= n; i++) ours[ids[i]] = 1 }
    $1 in ours { print $2 }' | sort -u | comm -23 - "$packages_dir/before"
}
