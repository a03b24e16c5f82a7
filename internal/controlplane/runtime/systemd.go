package runtime

import (
	"context"
	"path"
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/unit"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	unitfile "github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

// systemd runs each component as a unit: see package unit.
type systemd struct{}

func (systemd) OnMachine() bool                               { return true }
func (systemd) Dirs() []host.Dir                              { return nil }
func (systemd) Program(host.Facts, string) string             { return "" }
func (systemd) Validate(s component.Replica) error            { return unit.Validate(s) }
func (systemd) Definition(c component.Component) host.File    { return unit.File(c) }
func (systemd) Path(name string) string                       { return unit.Path(name) }
func (systemd) Flags(c component.Component) map[string]string { return unit.Flags(c) }
func (systemd) DropIns(name string) string                    { return unit.DropInDir(name) }
func (systemd) Unit(name string) string                       { return unit.Name(name) }
func (systemd) MainPID(name host.Script) host.Script          { return unit.MainPID(name) }
func (systemd) Enable(names []string) host.Script             { return unit.Enable(names) }
func (systemd) Restart(names []string) host.Script            { return unit.Restart(names) }
func (systemd) Return(names []string) host.Script             { return unit.Restart(names) }
func (systemd) Stop() host.Script                             { return unit.Stop() }
func (systemd) Leave() host.Script                            { return unit.Stop() }
func (systemd) StopOf(names []string) host.Script             { return unit.StopOf(names) }
func (systemd) Pause(names []string) host.Script              { return unit.Pause(names) }
func (systemd) PausedPath() string                            { return "/run/kube-replica.paused" }
func (systemd) Resume(names []string) host.Script             { return unit.Restart(names) }
func (systemd) Kill(name string) host.Script                  { return unit.Kill(name) }
func (systemd) Forget() host.Script                           { return unit.Reload() }
func (systemd) StopByHand(name string) string                 { return "systemctl stop " + unit.Name(name) }

func (systemd) Directories() []string { return []string{unit.Dir, unit.EnabledDir} }

func (systemd) Parse(definition string) (Definition, error) {
	program, flags, err := unit.Parse(definition)
	return Definition{
		Program: program, Flags: flags, Groups: unit.Groups(definition), Limits: unit.Limits(definition),
		Environment: unit.Environment(definition),
	}, err
}

func (systemd) AddStates(q *host.Query, names ...string) {
	addMissing(&q.Units, unit.NamesOf(names)...)
}

func (systemd) State(facts host.Facts, name string) host.UnitState {
	return facts.Units[unit.Name(name)]
}

func (systemd) AddStartNotes(q *host.Query, names ...string) {
	for _, name := range names {
		addMissing(&q.Notes, unit.StartNotePath(name))
	}
}

func (systemd) StartNote(facts host.Facts, name string) map[string]string {
	return unitfile.ReadStartNote(facts.Files[unit.StartNotePath(name)].Content)
}

func (systemd) InheritedDefinition(host.Facts, string) string { return "" }

func (systemd) Returns(host.Facts, component.Component) bool { return false }

func (systemd) Inherited(host.Facts, component.Component) ([]string, bool) { return nil, false }

func (systemd) Log(ctx context.Context, h *host.Host, name string, lines int) (string, error) {
	return h.UnitLog(ctx, unit.Name(name), lines)
}

func (systemd) Problems(context.Context, *host.Host) ([]string, error) { return nil, nil }

func (systemd) Overrides(facts host.Facts, name string) []string {
	var files []string
	for _, file := range facts.Dirs[unit.DropInDir(name)] {
		files = append(files, path.Join(unit.DropInDir(name), file))
	}
	return files
}

// addMissing appends the words that a list does not have yet.
func addMissing(list *[]string, words ...string) {
	for _, word := range words {
		if !slices.Contains(*list, word) {
			*list = append(*list, word)
		}
	}
}
