package endpoint

import (
	"fmt"
	"strings"
)

// sandbox is what neither program needs: they have the network, what is below
// their own directory in /run, and nothing else of the machine to write to. What a
// line marked with + does is outside of it.
const sandbox = `NoNewPrivileges=yes
AmbientCapabilities=
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectProc=invisible
ProtectClock=yes
ProtectHostname=yes
ProtectControlGroups=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
RestrictNamespaces=yes
RestrictSUIDSGID=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
UMask=0077
`

// renderHAProxyUnit: reloading keeps the master and its listening sockets.
// RuntimeDirectory goes with a stop, and with it the state of servers from an
// earlier life; a start never loads one. keepalived watches what the unit writes
// when HAProxy is ready and when it has ended, of itself or not; that file
// outlives the unit, so it is written from outside of the sandbox.
//
// The master is root, to bind an address that the machine may not have
// (transparent: CAP_NET_RAW) and to become, and signal, its workers, which run as
// haproxy without any capability. The journal bounds the lines of connections.
func renderHAProxyUnit(program string) string {
	return fmt.Sprintf(`[Unit]
Description=HAProxy of the Kubernetes control-plane endpoint
Documentation=man:haproxy(1)
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
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
%[8]s
[Install]
WantedBy=multi-user.target
`, statePath, program, configDir, masterSocket, reloadPath, stoppedPath, runName, sandbox)
}

// renderKeepalivedUnit: the address must not stay behind on a machine whose
// keepalived died, or two machines would answer for it. Its advertisements must
// not wait for other programs, hence the priority.
func renderKeepalivedUnit(s Spec, program, device string) string {
	prefix := s.Address + "/32"
	if strings.Contains(s.Address, ":") {
		prefix = s.Address + "/128"
	}
	return fmt.Sprintf(`[Unit]
Description=keepalived of the Kubernetes control-plane endpoint
Documentation=man:keepalived(8)
Wants=network-online.target
After=network-online.target %[1]s
StartLimitIntervalSec=0

[Service]
Type=simple
RuntimeDirectory=%[2]s
RuntimeDirectoryMode=0755
ExecStart=%[3]s --dont-fork --log-detail --vrrp --use-file=%[4]s --pid=/run/%[2]s/keepalived.pid --vrrp_pid=/run/%[2]s/vrrp.pid
ExecReload=/bin/kill -HUP $MAINPID
ExecStopPost=-/bin/sh -c 'ip address delete %[5]s dev %[6]s 2>/dev/null'
KillMode=mixed
Restart=always
RestartSec=500ms
Nice=-20
LimitRTPRIO=%[7]d
CapabilityBoundingSet=CAP_NET_ADMIN CAP_NET_RAW
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK AF_PACKET
%[8]s
[Install]
WantedBy=multi-user.target
`, haproxyUnit, keepalivedRunName, program, keepalivedPath, prefix, device, realtimePriority, sandbox)
}
