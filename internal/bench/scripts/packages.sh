# Installs the packages that the endpoint needs, without its units.
apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y haproxy keepalived socat >/dev/null
systemctl disable --quiet --now haproxy keepalived
