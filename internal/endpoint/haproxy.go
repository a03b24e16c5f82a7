package endpoint

import (
	"fmt"
	"net/netip"
)

// renderHAProxy gives 10-endpoint.cfg.
//
// A replica that stops on purpose fails its check while it still serves what it
// has, so a failed check only keeps new connections away; it must not cut
// sessions (no on-marked-down shutdown-sessions). Sessions on a machine that
// died are ended by TCP itself: keepalive probes where the connection is idle,
// tcp-ut where data is in flight. That also holds in the workers that a reload
// leaves behind for their old connections; these run no checks. HAProxy 2.6
// refuses tcp-ut for servers added at run time, which is why replicas enter
// rotation by a hitless reload.
//
// The connect timeout is what a client waits when its connection was given to a
// machine that died a moment ago, before another one is tried (redispatch).
// Watches may be silent for hours, so nothing but keepalive ends a quiet session.
//
// Each connection is logged when it is established (logasap), because it may last
// for days: it can be matched with what the API server notes of the balancer.
func renderHAProxy(s Spec) string {
	return fmt.Sprintf(`# Managed by terraform-provider-kube. Replicas are in %s.
global
    log /dev/log daemon info
    user haproxy
    group haproxy
    stats socket %s mode 600 level admin expose-fd listeners
    server-state-file %s
    hard-stop-after 1h

defaults
    mode tcp
    log global
    log-format "%s"
    option logasap
    balance leastconn
    retries 3
    option redispatch 1
    option clitcpka
    clitcpka-idle 30s
    clitcpka-intvl 10s
    clitcpka-cnt 3
    option srvtcpka
    srvtcpka-idle 3s
    srvtcpka-intvl 1s
    srvtcpka-cnt 3
    timeout connect 1s
    timeout check 5s
    timeout client 24h
    timeout server 24h
    load-server-state-from-file global
    option httpchk GET /readyz
    http-check expect status 200
    default-server check check-ssl %s inter 1s fastinter 500ms fall 3 rise 2 tcp-ut 5s

frontend %s
    bind %s transparent
    default_backend %s
`, backendsPath, adminSocket, statePath, connectionLine, verification(s), proxyName, s.bind(), proxyName)
}

// connectionLine is what HAProxy logs of a connection: who connected, and by which
// address and port it reached which replica.
const connectionLine = "client=%ci:%cp source=%bi:%bp server=%s address=%si:%sp"

// verification: every API server's certificate carries the name "kubernetes"
// (kubeadm's layout), whatever its address.
func verification(s Spec) string {
	if s.CACertificate == "" {
		return "verify none"
	}
	return "verify required ca-file " + caPath + " verifyhost kubernetes"
}

func (s Spec) bind() string {
	ip, err := netip.ParseAddr(s.Address)
	if err != nil {
		return "" // Spec.validate comes first
	}
	return netip.AddrPortFrom(ip, uint16(s.port())).String()
}
