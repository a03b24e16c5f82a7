package haproxy

import (
	"fmt"
	"net/netip"
	"strings"
)

// renderHAProxy renders 10-endpoint.cfg.
//
// A replica that shuts down fails its check while it still serves its open connections. So a
// failed check only stops new connections and must not close sessions (no on-marked-down
// shutdown-sessions). Sessions with a machine that died are closed by TCP itself: by keepalive
// probes if the connection is idle, by tcp-ut of each server if data is in flight. This also applies to the
// workers that a reload leaves for old connections, which run no checks. HAProxy 2.6 refuses
// tcp-ut for servers that are added at run time, so replicas enter rotation by a hitless reload.
//
// The connect timeout is how long a client waits if its connection is sent to a machine that has
// just died, before another one is tried (redispatch). Watches may be silent for hours, so only
// keepalive closes a quiet session.
//
// Each connection is logged when it is established (logasap), because it may last for days. The
// line can be matched with the API server's audit log, which has the balancer's address.
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
    default-server check check-ssl %s inter 1s fastinter 500ms fall 3 rise 2

frontend %s
%s    default_backend %s
`, backendsPath, adminSocket, statePath, connectionLine, verification(s), proxyName, s.binds(), proxyName) +
		renderKonnectivity(s) + renderMetrics(s.Metrics)
}

// connectionLine is HAProxy's log line of a connection: the client, the local address and port,
// and the replica.
const connectionLine = "client=%ci:%cp source=%bi:%bp server=%s address=%si:%sp"

// verification returns the options that verify a replica. Each API server's certificate has the
// name "kubernetes" (kubeadm's layout), whatever its address.
func verification(s Spec) string {
	if s.CACertificate == "" {
		return "verify none"
	}
	return "verify required ca-file " + caPath + " verifyhost kubernetes"
}

// binds returns the lines that say where clients of the API connect.
func (s Spec) binds() string {
	if s.prepares() {
		return "    bind " + preparedBind + " mode 600\n"
	}
	return s.bindsAt(s.port())
}

// bindsAt returns a line for each virtual IP, that of Address first.
func (s Spec) bindsAt(port int) string {
	var lines strings.Builder
	for _, address := range s.vips() {
		ip, err := netip.ParseAddr(address)
		if err != nil {
			continue // refused by Spec.validate before
		}
		fmt.Fprintf(&lines, "    bind %s transparent\n", netip.AddrPortFrom(ip, uint16(port)))
	}
	return lines.String()
}
