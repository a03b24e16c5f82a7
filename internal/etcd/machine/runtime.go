package machine

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/staticpod"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

// Runtime is what runs a member on its machine. What differs between runtimes is in the files runtime*.go only: the
// definition, how the member starts and stops, and how its state is observed.
type Runtime string

// The runtimes.
const (
	Systemd   Runtime = "systemd" // "" is the same
	StaticPod Runtime = "static_pod"
)

// RuntimePaths are the files that show, beside those of a unit, what runs the member of a machine.
var RuntimePaths = []string{layout.PodPath, ManifestPath}

//go:embed runtime.sh
var runtimeScript host.Script

// runtimeFunctions are the functions that start and stop the member of a machine by whatever it has: see runtime.sh.
func runtimeFunctions() host.Script {
	return staticpod.Functions() + host.Assignments(map[string]string{
		"member_unit": layout.Unit, "member_unit_file": layout.UnitPath, "member_pod": layout.Product,
		"member_definition": layout.PodPath, "member_env": layout.EnvPath, "member_config": layout.ConfigDir,
		"member_inherited": layout.Inherited, "member_link": layout.StartGuard, "member_moved": layout.MovedManifests,
		"member_ports": portWords(), "member_user": layout.User, "member_keys": strings.Join(leafFiles(), " "),
	}) + runtimeScript.WithoutComments()
}

func portWords() string {
	var words []string
	for _, port := range ports {
		words = append(words, strconv.Itoa(port))
	}
	return strings.Join(words, " ")
}

// RuntimeQuestion returns the script that reports how the static pod of a machine runs, if it has one. UnitIn needs
// its output, and Units and Files of the query.
func RuntimeQuestion() host.Script { return runtimeFunctions() + "member_report ''\n" }

// definition returns the file that says how the member runs.
func (s Spec) definition() host.File {
	if s.Runtime == StaticPod {
		return s.pod().File(layout.PodPath)
	}
	return host.File{Path: layout.UnitPath, Content: []byte(renderUnit(s)), Mode: 0o644}
}

// DefinitionFile returns the file for a definition that was read from a machine.
func DefinitionFile(text string) host.File {
	f := host.File{Path: definitionPath(text), Content: []byte(text), Mode: 0o644}
	if f.Path == layout.PodPath {
		f.Mode = 0o600
	}
	return f
}

// definitionPath returns where a definition belongs.
func definitionPath(text string) string {
	if _, err := staticpod.Parse(text); err == nil {
		return layout.PodPath
	}
	return layout.UnitPath
}

// DefinitionIn returns the definition of the member among the files of a machine; "" if there is none.
func DefinitionIn(files map[string]host.FileState) string {
	if unit, ok := files[layout.UnitPath]; ok {
		return unit.Content
	}
	return files[layout.PodPath].Content
}

// Definition returns the definition of the machine's member; "" if there is none.
func (f Observed) Definition() string { return DefinitionIn(f.Facts.Files) }

// HasUnit reports whether the machine has the definition of a member, or its pod.
func (f Observed) HasUnit() bool {
	_, unit := f.Facts.Files[layout.UnitPath]
	return unit || podIn(f.Facts)
}

// CommandIn returns the program and the flags in a definition. The program of a pod is that of the same version that
// is installed for the member.
func CommandIn(definition string) systemd.Command {
	if p, err := staticpod.Parse(definition); err == nil {
		return systemd.Command{Program: path.Join(p.Annotations[toolsAnnotation], p.Program), Flags: p.Flags}
	}
	command, _, _ := systemd.ParseUnit(definition)
	return command
}

// UnitIn returns the state of what runs the member of a machine.
func UnitIn(facts host.Facts) host.UnitState {
	if !podIn(facts) {
		return facts.Units[layout.Unit]
	}
	_, defined := facts.Files[layout.PodPath]
	_, placed := facts.Files[ManifestPath]
	return staticpod.Read(facts.Output, layout.Product).Unit(placed, defined)
}

// interpretRuntime sets what is known of what runs the member.
func (f *Observed) interpretRuntime() {
	f.Unit = UnitIn(f.Facts)
	f.Pod = staticpod.Read(f.Facts.Output, layout.Product)
	if f.isPod() {
		f.interpretPod()
	}
}

// StartedWith returns the digests of the files that etcd read at its start, by path.
func (f Observed) StartedWith() map[string]string {
	if f.isPod() {
		return f.podNote
	}
	return systemd.ReadStartNote(f.Facts.Files[layout.StartNote].Content)
}

// owner returns the user of the member, to whom its data and keys belong. Root runs a static pod, perhaps without the
// capability to read what belongs to others.
func (s Spec) owner() string {
	if s.Runtime == StaticPod {
		return "root"
	}
	return layout.User
}

// mayOwn reports whether keys of a member may have belonged to a user of the machine: that of either runtime.
func mayOwn(user string) bool { return user == layout.User || user == "root" }

// ownerDrift describes the data directory and the keys that belong to another user. After a change of the runtime, the
// start gives them to the new one.
func (s Spec) ownerDrift(f Observed) []string {
	if f.OtherRuntime(s) != "" {
		return nil
	}
	var words []string
	for _, p := range append([]string{s.Directory()}, leafFiles()...) {
		have, there := f.Facts.Files[p]
		wrong := there && have.Owner != s.owner()
		if wrong && (have.Mode.IsDir() || have.Mode.IsRegular() && mayOwn(have.Owner)) { // others' keys are replaced
			words = append(words, fmt.Sprintf("%s has owner %s, wanted %s", p, have.Owner, s.owner()))
		}
	}
	return words
}

// ownerRepair returns what sets the owner right, which needs no restart, or "".
func (s Spec) ownerRepair(f Observed) host.Script {
	if len(s.ownerDrift(f)) == 0 {
		return ""
	}
	return runtimeFunctions() + "member_own\n"
}

// started sets what is known right after a member of s has started.
func (f *Observed) started(s Spec) {
	note := ""
	f.podNote = map[string]string{}
	for _, file := range FixedFiles(s) {
		f.podNote[file.Path] = Digest(file.Content)
		note += systemd.StartNoteEntry(Digest(file.Content), file.Path)
	}
	f.Facts.Files[layout.StartNote] = host.FileState{Content: note}
	f.Unit = host.UnitState{Load: "loaded", Active: "active", Sub: "running", Enabled: "enabled", Result: "success"}
	if s.Runtime == StaticPod {
		f.Guard, f.Pod.HasImage, f.Pod.Duplicates = s.guardTarget(), true, nil
		// What runs it was perhaps installed after the observation.
		f.Pod.Runtime, f.Pod.Answers = cmp.Or(f.Pod.Runtime, "ctr"), true
		f.Pod.Kubelet, f.Pod.Manifests = "active", staticpod.Directory
		f.Facts.Files[ManifestPath] = f.Facts.Files[layout.PodPath]
	}
}

// isPod reports whether a static pod is the machine's member.
func (f Observed) isPod() bool { return podIn(f.Facts) }

// podIn reports whether a machine has a static pod as its member.
func podIn(facts host.Facts) bool {
	if _, unit := facts.Files[layout.UnitPath]; unit {
		return false
	}
	_, defined := facts.Files[layout.PodPath]
	_, placed := facts.Files[ManifestPath]
	return defined || placed
}

// unitName names what runs the member, for messages.
func (f Observed) unitName() string {
	if f.isPod() {
		return "static pod " + layout.Product
	}
	return layout.Unit
}

// OtherRuntime describes why what is on the machine is not run as s wants it, or returns "".
func (f Observed) OtherRuntime(s Spec) string {
	switch pod := f.isPod(); {
	case !f.HasUnit():
		return ""
	case pod && s.Runtime != StaticPod:
		return fmt.Sprintf("the member on %s runs as a static pod, and runtime is %q", f.Label(), Systemd)
	case !pod && s.Runtime == StaticPod:
		return fmt.Sprintf("the member on %s runs as %s, and runtime is %q", f.Label(), layout.Unit, StaticPod)
	}
	return ""
}

// StartCommand returns the command that starts a member that is stopped, for messages. The kubelet starts a static pod.
func (s Spec) StartCommand() string {
	if s.Runtime == StaticPod {
		return "systemctl start kubelet"
	}
	return "systemctl start " + layout.Unit
}

// LogCommand returns the command that shows the log of the member, for messages.
func (s Spec) LogCommand() string {
	if s.Runtime == StaticPod {
		return "tail /var/log/pods/kube-system_etcd-*/etcd/*.log"
	}
	return "journalctl -u " + layout.Unit
}

// Log returns the last lines that the member has written, for diagnostics.
func Log(ctx context.Context, m Machine, s Spec, lines int) (string, error) {
	if s.Runtime != StaticPod {
		return m.UnitLog(ctx, layout.Unit, lines)
	}
	facts, err := m.Observe(ctx, host.Query{Script: staticpod.Functions() + staticpod.Log(layout.Product, lines)})
	return strings.TrimRight(facts.Output, "\n"), err
}
