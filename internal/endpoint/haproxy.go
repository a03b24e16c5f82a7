package endpoint

import (
	"fmt"
	"net/netip"
	"strings"
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
func renderHAProxy(s Spec) string {
	return fmt.Sprintf(`# Managed by terraform-provider-kube. Replicas are in %s.
global
    log /dev/log daemon notice
    user haproxy
    group haproxy
    stats socket %s mode 600 level admin expose-fd listeners
    server-state-file %s
    hard-stop-after 1h

defaults
    mode tcp
    log global
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
`, backendsPath, adminSocket, statePath, verification(s), proxyName, s.bind(), proxyName)
}

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

// renderHAProxyUnit: reloading keeps the master and its listening sockets.
// RuntimeDirectory goes with a stop, and with it the state of servers from an
// earlier life; a start never loads one. keepalived watches what the unit writes
// when HAProxy is ready and when it has ended, of itself or not.
func renderHAProxyUnit(program string) string {
	return fmt.Sprintf(`[Unit]
Description=HAProxy of the Kubernetes control-plane endpoint
Documentation=man:haproxy(1)
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
Type=notify
RuntimeDirectory=kube-endpoint
RuntimeDirectoryMode=0755
ExecStartPre=/bin/sh -c 'echo 1 >%[1]s'
ExecStart=%[2]s -Ws -f %[3]s -S %[4]s,mode,600
ExecStartPost=/bin/sh -c 'echo 0 >%[6]s'
ExecReload=%[5]s $MAINPID
ExecStopPost=/bin/sh -c 'echo 1 >%[6]s'
KillMode=mixed
Restart=always
RestartSec=500ms
SuccessExitStatus=143

[Install]
WantedBy=multi-user.target
`, statePath, program, configDir, masterSocket, reloadPath, stoppedPath)
}

// server is one replica in HAProxy's terms.
type server struct {
	Name    string
	Address string // IP:port
}

func (s server) line() string { return "    server " + s.Name + " " + s.Address }

// backendsHeader is 20-backends.cfg without servers, valid as it is.
const backendsHeader = "# Managed by terraform-provider-kube: the replicas in rotation, one line each.\nbackend " + proxyName + "\n"

// renderBackends gives 20-backends.cfg for servers in the order of their names.
func renderBackends(servers []server) string {
	var b strings.Builder
	b.WriteString(backendsHeader)
	for _, s := range servers {
		b.WriteString(s.line() + "\n")
	}
	return b.String()
}

// parseBackends reads 20-backends.cfg. foreign are lines that registration
// never writes.
func parseBackends(text string) (servers []server, foreign []string) {
	own := map[string]bool{}
	for line := range strings.Lines(backendsHeader) {
		own[strings.TrimSpace(line)] = true
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		fields := strings.Fields(line)
		switch {
		case line == "" || own[line]:
		case len(fields) >= 3 && fields[0] == "server":
			servers = append(servers, server{Name: fields[1], Address: fields[2]})
			if len(fields) > 3 {
				foreign = append(foreign, line)
			}
		default:
			foreign = append(foreign, line)
		}
	}
	return servers, foreign
}
