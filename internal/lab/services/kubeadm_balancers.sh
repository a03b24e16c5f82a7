# Sets HAProxy and keepalived up on a control-plane machine as kubeadm's guide does
# (https://github.com/kubernetes/kubeadm/blob/main/docs/ha-considerations.md), with port 8443. $own is the machine's
# address, $vip the virtual IP, with or without the length of a network, $servers the lines of HAProxy's servers, $state
# and $priority those of VRRP.
set -eu
DEBIAN_FRONTEND=noninteractive apt-get install -y -q haproxy keepalived >/dev/null
cat >/etc/haproxy/haproxy.cfg <<END
global
    log stdout format raw local0
    daemon

defaults
    mode                    http
    log                     global
    option                  httplog
    option                  dontlognull
    option http-server-close
    option                  redispatch
    retries                 1
    timeout http-request    10s
    timeout queue           20s
    timeout connect         5s
    timeout client          35s
    timeout server          35s
    timeout http-keep-alive 10s
    timeout check           10s

frontend apiserver
    bind *:8443
    mode tcp
    option tcplog
    default_backend apiserverbackend

backend apiserverbackend
    option httpchk
    http-check connect ssl
    http-check send meth GET uri /healthz
    http-check expect status 200
    mode tcp
    balance     roundrobin
$servers
END
cat >/etc/keepalived/check_apiserver.sh <<'END'
#!/bin/sh
curl -sfk --max-time 2 https://localhost:8443/healthz -o /dev/null || exit 1
END
chmod 755 /etc/keepalived/check_apiserver.sh
device=$(ip -o address show to "$own" | awk '{ print $2 }')
cat >/etc/keepalived/keepalived.conf <<END
global_defs {
    router_id LVS_DEVEL
}
vrrp_script check_apiserver {
  script "/etc/keepalived/check_apiserver.sh"
  interval 3
  weight -2
  fall 10
  rise 2
}

vrrp_instance VI_1 {
    state $state
    interface ${device%@*}
    virtual_router_id 51
    priority $priority
    authentication {
        auth_type PASS
        auth_pass 42
    }
    virtual_ipaddress {
        $vip
    }
    track_script {
        check_apiserver
    }
}
END
systemctl enable haproxy keepalived 2>/dev/null
systemctl restart haproxy keepalived
