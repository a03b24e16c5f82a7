package pod

import (
	"strconv"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/staticpod"
)

// State is what a machine reports of one component.
type State struct {
	Unit host.UnitState // in systemd's terms
	// Note has the digests of what the running container was started with, by path, among them its definition's.
	Note map[string]string
	// Program is that of the container that runs, as Component.Program; "" if none runs.
	Program string
	// Duplicates are other files that the kubelet takes for the same pod.
	Duplicates []string
	// Inherited is what the manifest says, if the provider has not written it; nil if it has, or if it cannot be read.
	Inherited *staticpod.Inherited
	// InheritedText is that manifest.
	InheritedText string
	// Kept is what such a manifest said that the component ran from when another runtime took it over, if it has none now.
	Kept *staticpod.Inherited
}

// WithoutContainer is the state, within activating, of a pod that has been placed for mostAge seconds and has no
// container: its kubelet has refused the manifest, or cannot start it.
const WithoutContainer = "no-container"

const mostAge = 120

// lacksContainer reports whether a pod is in the state WithoutContainer. If the runtime does not answer, nobody knows
// its containers.
func lacksContainer(unit host.UnitState, reported staticpod.State, age int) bool {
	return unit.Active == "activating" && len(reported.Containers) == 0 && reported.Answers && age >= mostAge
}

// Read parses the output of Report. Other lines, and what has an unknown form, are ignored.
func Read(output, name string) State {
	reported := staticpod.Read(output, name)
	var defined, placed, edited bool
	age := 0
	version := ""
	var inherited, kept *staticpod.Inherited
	text := ""
	for line := range strings.Lines(output) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(fields) < 3 || fields[0] != "replica" || fields[1] != name {
			continue
		}
		switch fields[2] {
		case "defined":
			defined = true
		case "placed":
			placed = true
		case "edited":
			edited = true
		case "age":
			if len(fields) == 4 {
				age, _ = strconv.Atoi(fields[3]) // not known: as if it were new
			}
		case "inherited":
			if len(fields) == 4 {
				inherited, text = readInherited(fields[3], name)
				if inherited != nil {
					version = VersionOf(*inherited)
				}
			}
		case "kept":
			if len(fields) == 4 {
				kept, _ = readInherited(fields[3], name)
			}
		case "version":
			if len(fields) == 4 && release.IsVersion(fields[3]) {
				version = fields[3]
			}
		}
	}
	s := State{Unit: reported.Unit(placed, defined), Duplicates: reported.Duplicates, Kept: kept}
	s.Unit.NeedReload, s.Inherited, s.InheritedText = edited, inherited, text
	if lacksContainer(s.Unit, reported, age) {
		s.Unit.Sub = WithoutContainer
	}
	switch s.Unit.Sub { // in words where systemd has a result
	case "failed":
		s.Unit.Result = "the kubelet does not run"
	case "auto-restart":
		s.Unit.Result = "its container ends"
	}
	if running, ok := reported.Running(); ok {
		s.Note = running.Note
		delete(s.Note, staticpod.Self) // the rest of the note has the digest of the definition
		if version != "" {
			s.Program = component.Artifact(version, name).Path()
		}
	}
	return s
}
