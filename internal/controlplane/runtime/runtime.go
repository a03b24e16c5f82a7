// Package runtime is the seam between a replica and what runs its components on a machine. Everything
// above it decides with the same code, whatever runs them: what a component is started from (its
// definition), the state of its process, and what the process has read at its start (its start note).
package runtime

import (
	"context"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// Runtime runs the components of a replica. Components are given by name ("kube-apiserver") where their
// description is not needed.
type Runtime interface {
	// Validate returns why the components of a valid replica cannot run this way.
	Validate(s component.Replica) error
	// Problems returns what the machine lacks to run them.
	Problems(ctx context.Context, h *host.Host) ([]string, error)
	// OnMachine reports whether the programs are on the machine, and run as users of it. Otherwise they are in
	// images, and root.
	OnMachine() bool

	// Definition renders the file that a component is started from. It depends on the description alone.
	Definition(c component.Component) host.File
	// Path returns the path of that file.
	Path(name string) string
	// Flags returns the flags that the process of c gets.
	Flags(c component.Component) map[string]string
	// Parse parses a definition. Values that Validate would reject are dropped.
	Parse(definition string) (Definition, error)
	// Dirs returns the directories that definitions need.
	Dirs() []host.Dir
	// DropIns returns the directory whose files change a definition; "" if there is none.
	DropIns(name string) string
	// Overrides returns the files that change how a component runs, as facts of a query with its drop-ins and
	// states say.
	Overrides(facts host.Facts, name string) []string

	// Unit returns what systemd or messages call the component.
	Unit(name string) string
	// AddStates adds what State needs to a query.
	AddStates(q *host.Query, names ...string)
	// State returns the state of a component, as facts of such a query say.
	State(facts host.Facts, name string) host.UnitState
	// AddStartNotes adds what StartNote needs to a query that has the states.
	AddStartNotes(q *host.Query, names ...string)
	// StartNote returns the digests of the files that the process of a component has read at its start, by
	// path, among them its definition's. There is none if that is unknown.
	StartNote(facts host.Facts, name string) map[string]string
	// Program returns the program that runs, as Component.Program, if the facts say it; MainPID tells otherwise.
	Program(facts host.Facts, name string) string
	// Inherited returns why the process of c does not run as its description says, if somebody else has defined it:
	// kubeadm. What its definition has in addition to that is no reason. Nothing notes what such a process has read.
	Inherited(facts host.Facts, c component.Component) (differences []string, inherited bool)
	// Returns reports whether c ran from a definition of somebody else before another runtime took it over, which says
	// what the description does, with files that the provider maintains. Return starts c from it.
	Returns(facts host.Facts, c component.Component) bool
	// InheritedDefinition returns what somebody else has defined of a component; "" if nobody has.
	InheritedDefinition(facts host.Facts, name string) string
	// MainPID returns an expression for the process of a component, or 0 if none runs. name is a word of
	// the script.
	MainPID(name host.Script) host.Script
	// Log returns the last lines of a component's log.
	Log(ctx context.Context, h *host.Host, name string, lines int) (string, error)

	// Enable returns a script that makes components start at boot.
	Enable(names []string) host.Script
	// Restart returns a script that starts components from their definitions. It returns once no old
	// process of them runs, because an old process would still report that it is ready.
	Restart(names []string) host.Script
	// Return is Restart for components that Returns is true for.
	Return(names []string) host.Script
	// Stop returns a script that stops all components for good and can be repeated.
	Stop() host.Script
	// Leave is Stop for components that another runtime takes over.
	Leave() host.Script
	// StopOf is Stop for some of them.
	StopOf(names []string) host.Script
	// Pause returns a script that stops components until Resume or Restart, or until PausedPath has gone.
	Pause(names []string) host.Script
	// PausedPath is the file that marks a replica whose components are paused. It goes with a boot if that starts them.
	PausedPath() string
	// Resume is Restart for components that were paused, from whatever they ran from before.
	Resume(names []string) host.Script
	// Kill returns a script that ends the processes of a component at once. Pause must follow.
	Kill(name string) host.Script
	// StopByHand returns the command with which a person stops a component.
	StopByHand(name string) string
	// Forget returns a script that follows the removal of definitions.
	Forget() host.Script
	// Directories returns the directories that these scripts change, to be flushed.
	Directories() []string
}

// Definition is what a parsed definition says.
type Definition struct {
	Program     string
	Flags       map[string]string // without dashes
	Groups      []string          // additional groups; sorted
	Limits      component.Limits
	Environment map[string]string // nil for none
	// ImageRepository is Replica.ImageRepository.
	ImageRepository string
	Volumes         map[string]component.Volume // as Component.Volumes; nil for none
	Patch           string                      // as Component.Patch
}

// Of returns the runtime of a replica.
func Of(s component.Replica) Runtime { return Named(s.Runtime) }

// Named returns a runtime by the name that replicas, components and records give it.
func Named(name string) Runtime {
	if name == component.StaticPod {
		return staticPods{}
	}
	return systemd{}
}

// All returns every runtime that a replica of an unknown machine may have.
func All() []Runtime { return []Runtime{systemd{}, staticPods{}} }
