package haproxy

import (
	"fmt"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

// renderHAProxyUnit renders the unit of HAProxy. A reload keeps the master and its listening
// sockets. A stop removes RuntimeDirectory with the saved state of servers, so a start never
// loads one. keepalived watches the file that the unit writes when HAProxy is ready and when it
// has ended for any reason. That file outlives the unit, so it is written outside of the
// sandbox.
//
// The master is root, to bind an address that the machine may not have (transparent:
// CAP_NET_RAW) and to start and signal its workers, which run as haproxy without capabilities.
// The journal limits the log lines of connections.
func renderHAProxyUnit(program string) string {
	section := systemd.UnitSection{
		Description:   "HAProxy of the Kubernetes control-plane endpoint",
		Documentation: "man:haproxy(1)",
	}
	return section.String() + fmt.Sprintf(`[Service]
Type=notify
RuntimeDirectory=%[7]s
RuntimeDirectoryMode=0755
ExecStartPre=/bin/sh -c 'echo 1 >%[1]s'
ExecStart=%[2]s -Ws -f %[3]s -S %[4]s,mode,600
ExecStartPost=+/bin/sh -c 'echo 0 >%[6]s'
ExecReload=%[5]s $MAINPID
ExecStopPost=+/bin/sh -c 'echo 1 >%[6]s'
KillMode=mixed
Restart=always
RestartSec=500ms
SuccessExitStatus=143
LogRateLimitIntervalSec=30s
LogRateLimitBurst=3000
CapabilityBoundingSet=CAP_NET_BIND_SERVICE CAP_NET_RAW CAP_SETUID CAP_SETGID CAP_KILL
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictRealtime=yes
`, statePath, program, configDir, masterSocket, reloadPath, stoppedPath,
		runName) + systemd.Sandbox + systemd.InstallSection
}

// renderKeepalivedUnit renders the unit of keepalived. The address must not stay on a machine
// whose keepalived died, or two machines would answer for it. The priority is there because
// advertisements must not wait for other programs. As long as another service of the machine has the address, it is
// left alone.
func renderKeepalivedUnit(s Spec, program, device string) string {
	var removals strings.Builder
	for _, address := range s.vips() {
		if s.prepares() {
			break
		}
		fmt.Fprintf(&removals, "ExecStopPost=-/bin/sh -c 'ip address delete %s dev %s 2>/dev/null'\n", s.entry(address),
			device)
	}
	section := systemd.UnitSection{
		Description: "keepalived of the Kubernetes control-plane endpoint", Documentation: "man:keepalived(8)",
		After: []string{haproxyUnit},
	}
	return section.String() + fmt.Sprintf(`[Service]
Type=simple
RuntimeDirectory=%[1]s
RuntimeDirectoryMode=0755
ExecStart=%[2]s --dont-fork --log-detail --vrrp --use-file=%[3]s `+
		`--pid=/run/%[1]s/keepalived.pid --vrrp_pid=%[6]s
ExecReload=/bin/kill -HUP $MAINPID
%[4]sKillMode=mixed
Restart=always
RestartSec=500ms
Nice=-20
LimitRTPRIO=%[5]d
CapabilityBoundingSet=CAP_NET_ADMIN CAP_NET_RAW
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK AF_PACKET
`, keepalivedRunName, program, keepalivedPath, removals.String(),
		realtimePriority, vrrpPID) + systemd.Sandbox + systemd.InstallSection
}
