package runtime

import (
	"context"
	"fmt"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/pod"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/staticpod"
)

// WithoutContainer is the state, within activating, of a component that has a definition and no process for too long.
const WithoutContainer = pod.WithoutContainer

// staticPods runs each component as a static pod of the machine's kubelet: see package pod.
type staticPods struct{}

func (staticPods) OnMachine() bool                               { return false }
func (staticPods) Validate(s component.Replica) error            { return pod.Validate(s) }
func (staticPods) Definition(c component.Component) host.File    { return pod.File(c) }
func (staticPods) Path(name string) string                       { return pod.Path(name) }
func (staticPods) Flags(c component.Component) map[string]string { return c.Flags }
func (staticPods) DropIns(string) string                         { return "" }
func (staticPods) Unit(name string) string                       { return pod.Name(name) }
func (staticPods) AddStartNotes(*host.Query, ...string)          {}
func (staticPods) MainPID(host.Script) host.Script               { return "0" }
func (staticPods) Enable([]string) host.Script                   { return "" }
func (staticPods) Restart(names []string) host.Script            { return pod.Restart(names) }
func (staticPods) Return(names []string) host.Script             { return pod.Return(names) }
func (staticPods) Stop() host.Script                             { return pod.Stop(component.Names()) }

func (staticPods) Leave() host.Script                { return pod.Leave(component.Names()) }
func (staticPods) StopOf(names []string) host.Script { return pod.Stop(names) }
func (staticPods) Pause(names []string) host.Script  { return pod.Leave(names) }
func (staticPods) PausedPath() string                { return component.KubernetesDir + "/replica.paused" }
func (staticPods) Resume(names []string) host.Script { return pod.Resume(names) }
func (staticPods) Kill(name string) host.Script      { return pod.Kill(name) }
func (staticPods) Forget() host.Script               { return pod.Forget() }

func (staticPods) StopByHand(name string) string { return "mv " + staticpod.Path(name) + " /root/" }

func (staticPods) Directories() []string { return []string{pod.Dir, staticpod.Directory} }

func (staticPods) Dirs() []host.Dir {
	return []host.Dir{{Path: pod.Dir, Mode: 0o755}, {Path: component.AuditLogDir, Mode: 0o700}}
}

func (staticPods) Parse(definition string) (Definition, error) {
	parsed, err := pod.Parse(definition)
	return Definition{
		Program: parsed.Program, Flags: parsed.Flags, Limits: parsed.Limits, Environment: parsed.Environment,
		ImageRepository: parsed.ImageRepository, Volumes: parsed.Volumes, Patch: parsed.Patch,
	}, err
}

// AddStates puts the report before the rest of the script: that prints sections, which end with the next one.
func (staticPods) AddStates(q *host.Query, names ...string) { q.Script = pod.Report(names) + q.Script }

func (staticPods) State(facts host.Facts, name string) host.UnitState {
	return pod.Read(facts.Output, name).Unit
}

func (staticPods) StartNote(facts host.Facts, name string) map[string]string {
	return pod.Read(facts.Output, name).Note
}

func (staticPods) Program(facts host.Facts, name string) string {
	return pod.Read(facts.Output, name).Program
}

func (staticPods) Overrides(facts host.Facts, name string) []string {
	return pod.Read(facts.Output, name).Duplicates
}

func (staticPods) InheritedDefinition(facts host.Facts, name string) string {
	return pod.Read(facts.Output, name).InheritedText
}

func (staticPods) Inherited(facts host.Facts, c component.Component) ([]string, bool) {
	have := pod.Read(facts.Output, c.Name).Inherited
	if have == nil {
		return nil, false
	}
	return pod.InheritedDifferences(*have, c), true
}

func (staticPods) Returns(facts host.Facts, c component.Component) bool {
	kept := pod.Read(facts.Output, c.Name).Kept
	return kept != nil && len(pod.ReturnDifferences(*kept, c)) == 0
}

func (staticPods) Log(ctx context.Context, h *host.Host, name string, lines int) (string, error) {
	facts, err := h.Observe(ctx, host.Query{Script: pod.Log(name, lines)})
	return facts.Output, err
}

func (staticPods) Problems(ctx context.Context, h *host.Host) ([]string, error) {
	facts, err := h.Observe(ctx, host.Query{Script: pod.Requirements()})
	if err != nil {
		return nil, fmt.Errorf("check whether %s can run static pods: %w", h.Address(), err)
	}
	return pod.Problems(facts.Output), nil
}

// InheritedEncryption returns the file of the machine that an inherited API server reads its configuration of
// encryption at rest from; "" if there is no such API server, or if it reads none.
func InheritedEncryption(facts host.Facts) (string, error) {
	manifest := staticPods{}.InheritedDefinition(facts, release.APIServer)
	if manifest == "" {
		return "", nil
	}
	apiServer, err := pod.ParseInherited(manifest)
	if err != nil {
		return "", err //nolint:wrapcheck // it says what is wrong with the manifest
	}
	return pod.EncryptionFile(apiServer) //nolint:wrapcheck // the same
}
