package controlplane

import (
	"path"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// systemdRuntime runs each component as a unit under its own user.
type systemdRuntime struct{}

const unitDir = "/etc/systemd/system"

func unitName(component string) string { return component + ".service" }

func unitPath(component string) string { return path.Join(unitDir, unitName(component)) }

func unitNames() []string {
	names := release.Components()
	for i, name := range names {
		names[i] = unitName(name)
	}
	return names
}

// serviceSettings are those of all three components.
const serviceSettings = `CapabilityBoundingSet=
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
RestrictRealtime=yes
LimitNOFILE=1048576
` + systemd.Sandbox

// definition is the unit file.
func (r systemdRuntime) definition(c component) host.File {
	return host.File{Path: unitPath(c.name), Content: []byte(r.unit(c)), Mode: publicMode, Owner: "root", Group: "root"}
}

func (r systemdRuntime) unit(c component) string {
	var b strings.Builder
	line := func(parts ...string) { b.WriteString(strings.Join(parts, "") + "\n") }
	b.WriteString(systemd.UnitSection{
		Description:   "Kubernetes " + c.name,
		Documentation: "https://kubernetes.io/docs/reference/command-line-tools-reference/" + c.name + "/",
		After:         r.after(c),
	}.String())
	line("[Service]")
	r.process(c, line)
	line("Restart=always")
	line("RestartSec=2")
	b.WriteString(c.limits.Lines())
	b.WriteString(serviceSettings)
	b.WriteString(systemd.InstallSection)
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
func (systemdRuntime) after(c component) []string {
	if c.name == release.APIServer {
		return []string{"time-sync.target", "etcd.service"}
	}
	return []string{unitName(release.APIServer)}
}

func (r systemdRuntime) process(c component, line func(...string)) {
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
	line(systemd.StartNote(r.started(c.name), append([]string{unitPath(c.name)}, c.inputs...)...))
	line(systemd.Command{Program: c.program, Flags: c.flags}.ExecStart())
	if c.name == release.APIServer {
		line("LogsDirectory=", path.Base(auditLogDir))
		line("LogsDirectoryMode=0700")
		// Starting takes as long as etcd lets it wait; stopping takes the
		// shutdown delay and the requests in flight, which are bounded by
		// --request-timeout (60 s).
		line("TimeoutStartSec=infinity")
		line("TimeoutStopSec=90")
	}
}

func (systemdRuntime) borrowed(name, key string) string {
	return path.Join("/run/credentials", unitName(name), path.Base(key))
}

func (systemdRuntime) started(name string) string { return path.Join("/run", name, "started") }

func (systemdRuntime) enable() host.Script {
	return "systemctl enable --quiet " + host.Words(unitNames()...) + "\n"
}

// start returns once no old process of the named components runs: it would
// still say that it is ready. The loop only waits, so that a cut leaves the
// restart to systemd, which completes it.
func (systemdRuntime) start(names []string) host.Script {
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
func (systemdRuntime) stop() host.Script {
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
func (systemdRuntime) pause(names []string) host.Script {
	var units []string
	for _, name := range names {
		units = append(units, unitName(name))
	}
	return "systemctl stop " + host.Words(units...) + "\n"
}

// overrides are what `systemctl edit` writes.
func (systemdRuntime) overrides(name string) string { return unitPath(name) + ".d" }

func (systemdRuntime) parse(definition string) (program string, flags map[string]string, err error) {
	command, _, err := systemd.ParseUnit(definition)
	return command.Program, command.Flags, err
}
