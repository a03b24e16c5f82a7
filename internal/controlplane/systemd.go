package controlplane

import (
	"path"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// systemd runs each component as a unit under its own user.
type systemd struct{}

const unitDir = "/etc/systemd/system"

func unitName(component string) string { return component + ".service" }

func unitPath(component string) string { return path.Join(unitDir, unitName(component)) }

func unitNames() []string {
	names := Components()
	for i, name := range names {
		names[i] = unitName(name)
	}
	return names
}

// sandbox is what all three can do without: they need the network, their
// files below /etc/kubernetes, and nothing else of the machine.
var sandbox = strings.TrimLeft(`
NoNewPrivileges=yes
CapabilityBoundingSet=
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
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
UMask=0077
LimitNOFILE=1048576
`, "\n")

// definition is the unit file.
func (r systemd) definition(c component) host.File {
	return host.File{Path: unitPath(c.name), Content: []byte(r.unit(c)), Mode: publicMode, Owner: "root", Group: "root"}
}

func (r systemd) unit(c component) string {
	var b strings.Builder
	line := func(parts ...string) { b.WriteString(strings.Join(parts, "") + "\n") }
	line("# Written by terraform-provider-kube. A change by hand shows up as drift and is undone.")
	line("[Unit]")
	line("Description=Kubernetes ", c.name)
	line("Documentation=https://kubernetes.io/docs/reference/command-line-tools-reference/", c.name, "/")
	line("Wants=network-online.target")
	line("After=", r.after(c))
	line("StartLimitIntervalSec=0")
	line()
	line("[Service]")
	r.process(c, line)
	line("Restart=always")
	line("RestartSec=2")
	b.WriteString(c.limits.Lines())
	b.WriteString(sandbox)
	line()
	line("[Install]")
	line("WantedBy=multi-user.target")
	return b.String()
}

// groupsLine begins the line of a unit that names further groups.
const groupsLine = "SupplementaryGroups="

// groupsIn reads back the groups of a unit. What is no name is none.
func groupsIn(unit string) []string {
	var groups []string
	for line := range strings.Lines(unit) {
		if names, ok := strings.CutPrefix(strings.TrimSpace(line), groupsLine); ok {
			for _, name := range strings.Fields(names) {
				if ValidateGroup(name) == nil {
					groups = append(groups, name)
				}
			}
		}
	}
	slices.Sort(groups)
	return slices.Compact(groups)
}

// after orders the others behind the API server: at a boot they start when it
// serves instead of burning the processor that it needs to get there, and at a
// shutdown they end before it.
func (systemd) after(c component) string {
	if c.name == APIServer {
		return "network-online.target time-sync.target etcd.service"
	}
	return "network-online.target " + unitName(APIServer)
}

func (r systemd) process(c component, line func(...string)) {
	kind := "exec"
	if c.notifies {
		kind = "notify"
	}
	line("Type=", kind)
	line("User=", c.name)
	line("Group=", c.name)
	if len(c.groups) > 0 {
		line(groupsLine, strings.Join(c.groups, " "))
	}
	for _, key := range c.borrowed {
		line("LoadCredential=", path.Base(key), ":", key)
	}
	line("# The note of what this start has read. It tells later whether a restart is due.")
	line("RuntimeDirectory=", c.name)
	line("RuntimeDirectoryMode=0755")
	line(host.StartNote(r.started(c.name), append([]string{unitPath(c.name)}, c.inputs...)...))
	line("ExecStart=", execLine(append([]string{c.program}, arguments(c.flags)...)))
	if c.name == APIServer {
		line("LogsDirectory=", path.Base(auditLogDir))
		line("LogsDirectoryMode=0700")
		// Starting takes as long as etcd lets it wait; stopping takes the
		// shutdown delay and the requests in flight, which are bounded by
		// --request-timeout (60 s).
		line("TimeoutStartSec=infinity")
		line("TimeoutStopSec=90")
	}
}

func (systemd) borrowed(name, key string) string {
	return path.Join("/run/credentials", unitName(name), path.Base(key))
}

func (systemd) started(name string) string { return path.Join("/run", name, "started") }

func (systemd) enable() host.Script {
	return "systemctl enable --quiet " + host.Words(unitNames()...) + "\n"
}

// start returns once no old process of the named components runs: it would
// still say that it is ready. The loop only waits, so that a cut leaves the
// restart to systemd, which completes it.
func (systemd) start(names []string) host.Script {
	var script host.Script
	for _, name := range names {
		script += `unit=` + host.Words(unitName(name)) + `
old=$(systemctl show --property=MainPID --value $unit)
systemctl restart --no-block $unit
while [ "$old" != 0 ] && [ "$(systemctl show --property=MainPID --value $unit)" = "$old" ]; do sleep 0.1; done
`
	}
	return script
}

// stop relies on systemd's order: the others end before the API server. A unit
// that is not there is none to stop.
func (systemd) stop() host.Script {
	return `present=
for unit in ` + host.Words(unitNames()...) + `; do
  if [ -e ` + unitDir + `/$unit ]; then present="$present $unit"; fi
done
if [ -n "$present" ]; then
  systemctl disable --quiet --now $present
  systemctl reset-failed $present 2>/dev/null || :
fi
`
}

// pause stops components and leaves them to the next boot.
func (systemd) pause(names []string) host.Script {
	var units []string
	for _, name := range names {
		units = append(units, unitName(name))
	}
	return "systemctl stop " + host.Words(units...) + "\n"
}

// overrides are what `systemctl edit` writes.
func (systemd) overrides(name string) string { return unitPath(name) + ".d" }

func (systemd) parse(definition string) (program string, flags map[string]string, err error) {
	return parseExecStart(definition)
}
