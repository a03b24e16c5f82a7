# What the package manager brought for the endpoint, and nothing that others
# installed at the same time. Each transaction says so itself: dpkg in a log of its
# own, rpm by the id that all packages of a transaction have.

# brought prints the packages, those of a transaction that was cut off included.
brought() {
  {
    [ ! -e "$state/installed" ] || cat "$state/installed"
    if command -v dpkg >/dev/null; then
      [ ! -e "$state/dpkg.log" ] || awk '$3 == "install" { sub(/:.*/, "", $4); print $4 }' "$state/dpkg.log"
    elif [ -e "$state/wanted" ]; then
      came
    fi
  } | sort -u
}

# came prints the packages that rpm brought together with those in $state/wanted.
# One that was there before was only brought up to date.
came() {
  transactions=$(xargs rpm -q --qf '%{INSTALLTID}\n' <"$state/wanted" | grep -x '[0-9]*' | sort -u)
  rpm -qa --qf '%{INSTALLTID} %{NAME}\n' | awk -v known="$transactions" '
    BEGIN { n = split(known, ids, "\n"); for (i = 1; i <= n; i++) ours[ids[i]] = 1 }
    $1 in ours { print $2 }' | sort -u | comm -23 - "$state/before"
}
