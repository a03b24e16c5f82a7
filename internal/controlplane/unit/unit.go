// Package unit runs the components of a replica as systemd units: it renders their
// unit files, reads them back, and has the scripts that start and stop them.
package unit

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

// Dir is where the unit files are.
const Dir = "/etc/systemd/system"

// Name is the name of a component's unit.
func Name(component string) string { return component + ".service" }

// Path is the path of a component's unit file.
func Path(component string) string { return path.Join(Dir, Name(component)) }

// Names lists the units of all components.
func Names() []string {
	names := release.Components()
	for i, name := range names {
		names[i] = Name(name)
	}
	return names
}

// serviceSettings are those of all three components.
const serviceSettings = `CapabilityBoundingSet=
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
RestrictRealtime=yes
LimitNOFILE=1048576
` + systemd.Sandbox

// File is the unit file of a component.
func File(c component.Component) host.File {
	content := c.Definition
	if content == "" {
		content = text(c)
	}
	return host.File{Path: Path(c.Name), Content: []byte(content), Mode: component.PublicMode, Owner: "root", Group: "root"}
}

func text(c component.Component) string {
	var b strings.Builder
	line := func(parts ...string) { b.WriteString(strings.Join(parts, "") + "\n") }
	b.WriteString(systemd.UnitSection{
		Description:   "Kubernetes " + c.Name,
		Documentation: "https://kubernetes.io/docs/reference/command-line-tools-reference/" + c.Name + "/",
		After:         after(c),
	}.String())
	line("[Service]")
	service(c, line)
	line("Restart=always")
	line("RestartSec=2")
	b.WriteString(c.Limits.Lines())
	b.WriteString(serviceSettings)
	b.WriteString(systemd.InstallSection)
	return b.String()
}

// groupsLine begins the line of a unit that names further groups.
const groupsLine = "SupplementaryGroups="

// Groups reads back the groups of a unit. What is no name is none.
func Groups(unit string) []string {
	var groups []string
	for line := range strings.Lines(unit) {
		if names, ok := strings.CutPrefix(strings.TrimSpace(line), groupsLine); ok {
			for _, name := range strings.Fields(names) {
				if component.ValidateGroup(name) == nil {
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
func after(c component.Component) []string {
	if c.Name == release.APIServer {
		return []string{"time-sync.target", "etcd.service"}
	}
	return []string{Name(release.APIServer)}
}

func service(c component.Component, line func(...string)) {
	kind := "exec"
	if c.Notifies {
		kind = "notify"
	}
	line("Type=", kind)
	line("User=", c.Name)
	line("Group=", c.Name)
	if len(c.Groups) > 0 {
		line(groupsLine, strings.Join(c.Groups, " "))
	}
	for _, key := range slices.Compact(slices.Sorted(maps.Values(c.Borrowed))) {
		line("LoadCredential=", path.Base(key), ":", key)
	}
	line("# The note of what this start has read. It tells later whether a restart is due.")
	line("RuntimeDirectory=", c.Name)
	line("RuntimeDirectoryMode=0755")
	line(systemd.StartNote(StartNotePath(c.Name), append([]string{Path(c.Name)}, c.Inputs...)...))
	line(systemd.Command{Program: c.Program, Flags: Flags(c)}.ExecStart())
	if c.Name == release.APIServer {
		line("LogsDirectory=", path.Base(component.AuditLogDir))
		line("LogsDirectoryMode=0700")
		// Starting takes as long as etcd lets it wait; stopping takes the
		// shutdown delay and the requests in flight, which are bounded by
		// --request-timeout (60 s).
		line("TimeoutStartSec=infinity")
		line("TimeoutStopSec=90")
	}
}

// Flags are the flags of the process. Where a flag names a key that belongs to
// another component's user, systemd hands the key over as a credential.
func Flags(c component.Component) map[string]string {
	flags := maps.Clone(c.Flags)
	for flag, key := range c.Borrowed {
		flags[flag] = path.Join("/run/credentials", Name(c.Name), path.Base(key))
	}
	return flags
}

// StartNotePath is the file in which a start of a component notes the digests of its
// unit file and of what it reads: the evidence of whether what runs is what is on
// disk.
func StartNotePath(name string) string { return path.Join("/run", name, "started") }

// Enable is a script that has the components run after a boot.
func Enable() host.Script {
	return "systemctl enable --quiet " + host.Words(Names()...) + "\n"
}

// Restart is a script that restarts the named components. It returns once no old process of the named components runs: it would
// still say that it is ready. The loop only waits, so that a cut leaves the
// restart to systemd, which completes it.
func Restart(names []string) host.Script {
	var script host.Script
	for _, name := range names {
		script += `unit=` + host.Words(Name(name)) + `
old=$(systemctl show --property=MainPID --value $unit)
systemctl restart --no-block $unit
while [ "$old" != 0 ] && [ "$(systemctl show --property=MainPID --value $unit)" = "$old" ]; do sleep 0.1; done
`
	}
	return script
}

// Stop is a script that stops all components and may be repeated. It relies on systemd's order: the others end before the API server. A unit
// that is not there is none to stop.
func Stop() host.Script {
	return `present=
for unit in ` + host.Words(Names()...) + `; do
  if [ -e ` + Dir + `/$unit ]; then present="$present $unit"; fi
done
if [ -n "$present" ]; then
  systemctl disable --quiet --now $present
  systemctl reset-failed $present 2>/dev/null || :
fi
`
}

// Pause is a script that stops the named components and leaves them to the next boot.
func Pause(names []string) host.Script {
	var units []string
	for _, name := range names {
		units = append(units, Name(name))
	}
	return "systemctl stop " + host.Words(units...) + "\n"
}

// DropInDir is the directory of the drop-ins that `systemctl edit` writes.
func DropInDir(name string) string { return Path(name) + ".d" }

// Parse reads a unit file back.
func Parse(definition string) (program string, flags map[string]string, err error) {
	command, _, err := systemd.ParseUnit(definition)
	return command.Program, command.Flags, err
}
