package systemd

import "strings"

// Managed is the first line of every unit file that the provider writes.
const Managed = "# Managed by terraform-provider-kube. Manual changes are reported as drift and reverted."

// UnitSection is the [Unit] section of a service that is always restarted.
type UnitSection struct {
	Description   string
	Documentation string
	After         []string // units, besides network-online.target
	Lines         []string // additional settings
}

// String renders the section, preceded by Managed and followed by an empty line.
func (u UnitSection) String() string {
	lines := []string{
		Managed,
		"[Unit]",
		"Description=" + u.Description,
		"Documentation=" + u.Documentation,
		"Wants=network-online.target",
		strings.Join(append([]string{"After=network-online.target"}, u.After...), " "),
		"StartLimitIntervalSec=0",
	}
	return strings.Join(append(lines, u.Lines...), "\n") + "\n\n"
}

// InstallSection starts the unit at boot.
const InstallSection = `
[Install]
WantedBy=multi-user.target
`

// Sandbox contains the settings for the [Service] section that suit every program of a control
// plane: a program needs the network and its own files, and nothing else of the machine.
// CapabilityBoundingSet=, RestrictAddressFamilies= and ReadWritePaths= differ between programs
// and are set separately. A command line of the unit that starts with + is not sandboxed.
const Sandbox = `NoNewPrivileges=yes
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
