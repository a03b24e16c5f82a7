// Package unit runs the components of a replica as systemd units. It renders and parses their
// unit files, and provides the scripts that start and stop them.
package unit

import (
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

// Dir is the directory of the unit files.
const Dir = "/etc/systemd/system"

// EnabledDir is the directory of the links that Enable creates.
const EnabledDir = Dir + "/multi-user.target.wants"

// Name returns the name of a component's unit.
func Name(component string) string { return component + ".service" }

// Path returns the path of a component's unit file.
func Path(component string) string { return path.Join(Dir, Name(component)) }

// Names returns the units of all components that a replica may have.
func Names() []string {
	return NamesOf(component.Names())
}

// NamesOf returns the units of the named components.
func NamesOf(components []string) []string {
	var units []string
	for _, name := range components {
		units = append(units, Name(name))
	}
	return units
}

// serviceSettings are the settings that all three components share.
const serviceSettings = `CapabilityBoundingSet=
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
RestrictRealtime=yes
LimitNOFILE=1048576
` + systemd.Sandbox

// File renders the unit file of a component.
func File(c component.Component) host.File {
	content := c.Definition
	if content == "" {
		content = text(c)
	}
	return host.File{
		Path: Path(c.Name), Content: []byte(content), Mode: component.PublicMode, Owner: "root", Group: "root",
	}
}

func text(c component.Component) string {
	var b strings.Builder
	line := func(parts ...string) { b.WriteString(strings.Join(parts, "") + "\n") }
	b.WriteString(systemd.UnitSection{
		Description:   "Kubernetes " + c.Name,
		Documentation: documentation(c),
		After:         after(c),
	}.String())
	line("[Service]")
	service(c, line)
	line("Restart=always")
	line("RestartSec=2")
	b.WriteString(systemd.Limits(c.Limits).Lines(Name(c.Name)))
	b.WriteString(systemd.EnvironmentLines(c.Environment))
	b.WriteString(serviceSettings)
	b.WriteString(systemd.InstallSection)
	return b.String()
}

// documentation returns the page of the component's documentation.
func documentation(c component.Component) string {
	if c.Name == component.KonnectivityServer {
		return "https://kubernetes.io/docs/tasks/extend-kubernetes/setup-konnectivity/"
	}
	return "https://kubernetes.io/docs/reference/command-line-tools-reference/" + c.Name + "/"
}

// groupsLine is the key of the unit's line that lists supplementary groups.
const groupsLine = "SupplementaryGroups="

// Groups returns the supplementary groups of a unit. Invalid group names are skipped.
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

// Limits returns the limits of a unit. Values that Validate would reject are dropped.
func Limits(unit string) component.Limits { return component.Limits(systemd.LimitsIn(unit)) }

// Environment returns the variables of a unit, nil for none. Those that Validate would reject are dropped.
func Environment(unit string) map[string]string { return systemd.EnvironmentIn(unit) }

// after orders the other components after the API server. At boot they start when it serves,
// instead of competing with it for the CPU. At shutdown they stop before it. The API server itself is
// ordered after the proxy server that it uses.
func after(c component.Component) []string {
	switch {
	case c.Name == release.APIServer && slices.Contains(c.Groups, component.KonnectivityServer):
		return []string{"time-sync.target", "etcd.service", Name(component.KonnectivityServer)}
	case c.Name == release.APIServer:
		return []string{"time-sync.target", "etcd.service"}
	case c.StartsFirst:
		return []string{"time-sync.target"}
	}
	return []string{Name(release.APIServer)}
}

func service(c component.Component, line func(...string)) {
	kind := "exec"
	if c.Name == release.APIServer { // k8s.io/apiserver/pkg/server, NonBlockingRunWithContext
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
		// The start timeout is unlimited because the API server waits for etcd.
		line("TimeoutStartSec=infinity")
		line("TimeoutStopSec=", strconv.Itoa(int(c.StopTimeout/time.Second)))
	}
}

// Flags returns the flags of the process. If a flag refers to a key of another component's
// user, systemd passes the key on as a credential.
func Flags(c component.Component) map[string]string {
	flags := maps.Clone(c.Flags)
	for flag, key := range c.Borrowed {
		flags[flag] = path.Join("/run/credentials", Name(c.Name), path.Base(key))
	}
	return flags
}

// StartNotePath returns the file in which each start of a component records the digests of its
// unit file and of its inputs. The file shows whether the process runs what is on disk.
func StartNotePath(name string) string { return path.Join("/run", name, "started") }

// Component returns the component that a unit runs.
func Component(unit string) string { return strings.TrimSuffix(unit, ".service") }

// MainPID returns an expression for the process of a component, or 0 if none runs. name is a word of
// the script.
func MainPID(name host.Script) host.Script {
	return `$(systemctl show --property=MainPID --value ` + name + `.service)`
}

// Reload returns a script that makes systemd read all unit files again.
func Reload() host.Script { return "systemctl daemon-reload\n" }

// Enable returns a script that enables the units of the named components at boot.
func Enable(names []string) host.Script {
	return "systemctl enable --quiet " + host.Words(NamesOf(names)...) + "\n"
}

// Restart returns a script that restarts the named components. It returns once no old process
// of them runs, because an old process would still report that it is ready. The loop only
// waits, so if the script is interrupted, systemd completes the restart.
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

// Stop returns a script that stops all components and can be repeated. It relies on systemd's
// ordering: the other components stop before the API server, and the proxy server after it. A unit
// that does not exist is skipped.
func Stop() host.Script { return StopOf(component.Names()) }

// StopOf returns a script that stops the named components and disables their units. It can be
// repeated. A unit that does not exist is skipped.
func StopOf(names []string) host.Script {
	return `present=
for unit in ` + host.Words(NamesOf(names)...) + `; do
  if [ -e ` + Dir + `/$unit ]; then present="$present $unit"; fi
done
if [ -n "$present" ]; then
  systemctl disable --quiet --now $present
  systemctl reset-failed $present 2>/dev/null || :
fi
`
}

// Pause returns a script that stops the named components until the next boot.
func Pause(names []string) host.Script {
	return "systemctl stop " + host.Words(NamesOf(names)...) + "\n"
}

// Kill returns a script that ends the processes of a component at once. Pause must follow: systemd would
// start them again.
func Kill(name string) host.Script {
	return "systemctl kill --signal=KILL " + host.Words(NamesOf([]string{name})...) + " || true\n"
}

// DropInDir returns the directory of the drop-ins that `systemctl edit` writes.
func DropInDir(name string) string { return Path(name) + ".d" }

// Parse parses a unit file.
func Parse(definition string) (program string, flags map[string]string, err error) {
	command, _, err := systemd.ParseUnit(definition)
	return command.Program, command.Flags, err
}
