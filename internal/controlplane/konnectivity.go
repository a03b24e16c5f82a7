package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/client"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/runtime"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// The proxy server (kube-konnectivity-server) runs whenever the API server of its replica does: it
// starts before it, and is stopped or restarted only while the API server is down, so that
// the replica is out of rotation. Agents authenticate with tokens, which the API server verifies, so
// they return once it is ready. The replica enters rotation after that, unless the endpoint leads agents only to
// replicas in rotation: then it enters rotation first.

const (
	// agentsReturn is how long agents may take to connect again to a proxy server that they were
	// connected to. They try each second, and at most five seconds apart after failures.
	agentsReturn = time.Minute
	// agentsFollow is added if they reach the replica only in rotation: a cache of the endpoint's name may lack its
	// address for the longest time to live.
	agentsFollow = time.Minute
	// agentsMayReturn is how long agents are waited for that may, or may not, be able to connect.
	agentsMayReturn = 30 * time.Second
)

// agentsWait says whether agents are waited for.
type agentsWait struct {
	limit    time.Duration // 0 means that they are not
	required bool          // without an agent, the change has failed
	// registered: they reach the replica only in rotation, so they are waited for after it is registered. The change is
	// not rolled back then, because the replica serves.
	registered bool
}

// agentsBefore is what is known of agents before a change.
type agentsBefore struct {
	restarts     bool // the proxy server is restarted, or started
	connected    bool // to the replica, at the port that it keeps
	expected     bool // the first one may come: others have agents, or the replica was there before
	reachDrained bool // as Registrar.AgentsReachDrained
}

// wait decides whether agents are waited for after a change for which the API server stops. A drain may end the
// connections of those that do not reach a drained replica, also if the proxy server keeps running.
func (b agentsBefore) wait() agentsWait {
	switch {
	case b.connected && !b.reachDrained:
		return agentsWait{limit: agentsReturn + agentsFollow, required: true, registered: true}
	case b.connected && b.restarts:
		return agentsWait{limit: agentsReturn, required: true}
	case b.restarts && b.expected:
		return agentsWait{limit: agentsMayReturn, registered: !b.reachDrained}
	}
	return agentsWait{}
}

// konnectivityPaths returns the files of a proxy server that is not wanted and is on the machine.
// They are removed after the API server has been restarted without it.
func konnectivityPaths(s component.Replica, f machine.Observed) []string {
	if slices.Contains(component.NamesOf(s), component.KonnectivityServer) {
		return nil
	}
	candidates := append(component.KonnectivityFiles(), runtime.Of(s).Path(component.KonnectivityServer))
	return slices.DeleteFunc(candidates, func(path string) bool {
		_, there := f.Facts.Files[path]
		return !there
	})
}

// konnectivityDrift describes the unit of a proxy server that is not wanted.
func konnectivityDrift(s component.Replica, f machine.Observed) []string {
	definition := runtime.Of(s).Path(component.KonnectivityServer)
	if slices.Contains(konnectivityPaths(s, f), definition) {
		return []string{definition + " exists, but is not wanted"}
	}
	return nil
}

// restartsOf adds the API server to the components to restart if the proxy server is one of them:
// it has to be down meanwhile.
func restartsOf(names []string) []string {
	if slices.Contains(names, component.KonnectivityServer) && !slices.Contains(names, release.APIServer) {
		return append([]string{release.APIServer}, names...)
	}
	return names
}

// startScript restarts the API server, and the proxy server before it.
func startScript(by runtime.Runtime, d changes) host.Script {
	var script host.Script
	if d.restarts(component.KonnectivityServer) {
		script += by.Pause([]string{release.APIServer}) + by.Restart([]string{component.KonnectivityServer})
	}
	return script + d.start(by, release.APIServer)
}

// konnectivityIn returns the settings that a unit of the proxy server was written from. What the
// unit does not say, or says in another form, is the default: the next plan shows it as drift.
func konnectivityIn(by runtime.Runtime, text string) *component.Konnectivity {
	k := component.Konnectivity{Program: component.DefaultKonnectivityProgram, AgentPort: component.DefaultAgentPort}
	definition, err := by.Parse(text)
	if err != nil {
		return &k
	}
	if component.ValidateKonnectivityProgram(definition.Program) == nil {
		k.Program = definition.Program
	}
	if port, err := strconv.Atoi(definition.Flags["agent-port"]); err == nil && port >= 1024 && port <= 65535 {
		k.AgentPort = port
	}
	return &k
}

// keepsAgentPort reports whether agents find the proxy server at the port that it has now. If not,
// they return when they are told the new one.
func keepsAgentPort(s component.Replica, f machine.Observed) bool {
	by := f.Runtime()
	definition, err := by.Parse(f.Facts.Files[by.Path(component.KonnectivityServer)].Content)
	return err == nil && s.Konnectivity != nil && definition.Flags["agent-port"] == strconv.Itoa(s.Konnectivity.AgentPort)
}

// agentsToAwait decides, before a change, whether agents are waited for after it. If they were
// connected to this replica, they are required to return. A proxy server that is new waits for them if
// they are connected to other replicas, or may be waiting for the first one.
func (r *Replicas) agentsToAwait(ctx context.Context, s Spec, f machine.Observed, d changes) agentsWait {
	if s.Konnectivity == nil || !d.restarts(release.APIServer) {
		return agentsWait{}
	}
	before := agentsBefore{
		restarts: d.restarts(component.KonnectivityServer), reachDrained: s.Registrar.AgentsReachDrained(),
	}
	before.connected = keepsAgentPort(s.Replica, f) && s.client().HasAgents(ctx)
	if before.restarts && !before.connected {
		before.expected = f.Record.ClusterID != "" || r.othersHaveAgents(ctx, s)
	}
	return before.wait()
}

// othersHaveAgents reports whether agents are connected to another replica of the endpoint. What
// cannot be asked has none.
func (r *Replicas) othersHaveAgents(ctx context.Context, s Spec) bool {
	others, err := s.Registrar.Replicas(ctx)
	if err != nil {
		return false
	}
	for name, at := range others {
		address, _, err := splitAddress(at)
		if err != nil || name == s.Name {
			continue
		}
		if client.New(r.machine(address), s.Replica).HasAgents(ctx) {
			return true
		}
	}
	return false
}

// awaitAgents waits until an agent is connected to the proxy server.
func awaitAgents(ctx context.Context, s Spec, w agentsWait) error {
	if w.limit == 0 {
		return nil
	}
	problem.Progress(ctx, "%s: waiting for agents of %s", s.Machine(), component.KonnectivityServer)
	err := wait.PollUntilContextTimeout(ctx, pollInterval, w.limit, true, func(ctx context.Context) (bool, error) {
		return s.client().HasAgents(ctx), nil
	})
	switch {
	case err == nil:
		problem.Progress(ctx, "%s: an agent is connected", s.Machine())
		return nil
	case errors.Is(ctx.Err(), context.Canceled):
		return fmt.Errorf("wait for agents of replica %s: %w", s.Machine(), err)
	case !w.required && ctx.Err() == nil:
		problem.Progress(ctx, "%s: no agent has connected within %s: until one does, the API server does not reach "+
			"Services and Pods", s.Machine(), w.limit)
		return nil
	}
	return withoutAgents(ctx, s, w, err)
}

// withoutAgents says that the agents that were connected have not returned.
func withoutAgents(ctx context.Context, s Spec, w agentsWait, err error) error {
	p := &problem.Problem{
		Summary: "Control-plane replica is not ready", Host: s.Machine(),
		Cause: fmt.Sprintf("agents were connected to %s before the change, and none has connected again within %s: "+
			"the API server would not reach Services and Pods", component.KonnectivityServer, w.limit),
		Next:   "check the log of the agents and the port that they connect to, then apply again.",
		Detail: logs(ctx, s, []string{component.KonnectivityServer}),
		Err:    err,
	}
	if w.registered {
		p.Summary = "Control-plane replica has no agents"
		p.Cause = fmt.Sprintf("agents were connected to %s before the change, and none has connected again within %s of "+
			"rotation: the API server does not reach Services and Pods", component.KonnectivityServer, w.limit)
		p.Unchanged = "the replica serves, and is in rotation; no other one is changed after it in this run."
	}
	return p
}

// removeKonnectivity stops the proxy server that is not wanted any more, and removes its files and
// its user. The API server no longer uses it.
func removeKonnectivity(ctx context.Context, s Spec, paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	problem.Progress(ctx, "%s: removing %s", s.Machine(), component.KonnectivityServer)
	if _, err := s.Host.Run(ctx, host.Command{Script: removeKonnectivityScript(runtime.Of(s.Replica))}); err != nil {
		return fmt.Errorf("remove %s from %s: %w", component.KonnectivityServer, s.Machine(), err)
	}
	return nil
}

// removeKonnectivityScript removes the unit file last but for the user: while it is there, the next
// apply repeats the script.
func removeKonnectivityScript(by runtime.Runtime) host.Script {
	return by.StopOf([]string{component.KonnectivityServer}) + host.Discard(component.KonnectivityFiles()...) +
		host.RemoveUsers(component.KonnectivityServer) +
		host.Discard(by.Path(component.KonnectivityServer)) + by.Forget() +
		host.Flush(append(by.Directories(), component.PKIDir, component.KubernetesDir,
			"/etc/passwd", "/etc/shadow", "/etc/group", "/etc/gshadow", "/etc")...)
}
