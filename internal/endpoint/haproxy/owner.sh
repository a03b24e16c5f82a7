# shellcheck disable=SC2034 # other scripts read it
config=/etc/haproxy/kube

# bound: prints the address that HAProxy binds, if an earlier version recorded none.
bound() {
  [ ! -f "$config/10-endpoint.cfg" ] ||
    sed -n 's/^ *bind \[\{0,1\}\([0-9a-fA-F.:]*\)\]\{0,1\}:[0-9]* .*/\1/p' "$config/10-endpoint.cfg" | head -n 1
}
