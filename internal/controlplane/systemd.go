package controlplane

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

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

// unitDefinition is the unit file of a component.
func unitDefinition(c component) host.File {
	content := c.definition
	if content == "" {
		content = unitText(c)
	}
	return host.File{Path: unitPath(c.name), Content: []byte(content), Mode: publicMode, Owner: "root", Group: "root"}
}

func unitText(c component) string {
	var b strings.Builder
	line := func(parts ...string) { b.WriteString(strings.Join(parts, "") + "\n") }
	b.WriteString(systemd.UnitSection{
		Description:   "Kubernetes " + c.name,
		Documentation: "https://kubernetes.io/docs/reference/command-line-tools-reference/" + c.name + "/",
		After:         unitAfter(c),
	}.String())
	line("[Service]")
	unitProcess(c, line)
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

// unitAfter orders the others behind the API server: at a boot they start when it
// serves instead of burning the processor that it needs to get there, and at a
// shutdown they end before it.
func unitAfter(c component) []string {
	if c.name == release.APIServer {
		return []string{"time-sync.target", "etcd.service"}
	}
	return []string{unitName(release.APIServer)}
}

func unitProcess(c component, line func(...string)) {
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
	for _, key := range slices.Compact(slices.Sorted(maps.Values(c.borrowed))) {
		line("LoadCredential=", path.Base(key), ":", key)
	}
	line("# The note of what this start has read. It tells later whether a restart is due.")
	line("RuntimeDirectory=", c.name)
	line("RuntimeDirectoryMode=0755")
	line(systemd.StartNote(startNotePath(c.name), append([]string{unitPath(c.name)}, c.inputs...)...))
	line(systemd.Command{Program: c.program, Flags: unitFlags(c)}.ExecStart())
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

// unitFlags are the flags of the process. Where a flag names a key that belongs to
// another component's user, systemd hands the key over as a credential.
func unitFlags(c component) map[string]string {
	flags := maps.Clone(c.flags)
	for flag, key := range c.borrowed {
		flags[flag] = path.Join("/run/credentials", unitName(c.name), path.Base(key))
	}
	return flags
}

// startNotePath is the file in which a start of a component notes the digests of its
// unit file and of what it reads: the evidence of whether what runs is what is on
// disk.
func startNotePath(name string) string { return path.Join("/run", name, "started") }

// unitEnable is a script that has the components run after a boot.
func unitEnable() host.Script {
	return "systemctl enable --quiet " + host.Words(unitNames()...) + "\n"
}

// unitStart is a script that restarts the named components. It returns once no old process of the named components runs: it would
// still say that it is ready. The loop only waits, so that a cut leaves the
// restart to systemd, which completes it.
func unitStart(names []string) host.Script {
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

// unitStop is a script that stops all components and may be repeated. It relies on systemd's order: the others end before the API server. A unit
// that is not there is none to stop.
func unitStop() host.Script {
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

// unitPause is a script that stops the named components and leaves them to the next boot.
func unitPause(names []string) host.Script {
	var units []string
	for _, name := range names {
		units = append(units, unitName(name))
	}
	return "systemctl stop " + host.Words(units...) + "\n"
}

// unitOverrides is the directory of the drop-ins that `systemctl edit` writes.
func unitOverrides(name string) string { return unitPath(name) + ".d" }

// unitParse reads a unit file back.
func unitParse(definition string) (program string, flags map[string]string, err error) {
	command, _, err := systemd.ParseUnit(definition)
	return command.Program, command.Flags, err
}
