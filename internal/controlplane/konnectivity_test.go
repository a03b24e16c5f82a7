package controlplane

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/runtime"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/unit"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// withKonnectivity returns a replica with a proxy server.
func withKonnectivity(t *testing.T) Spec {
	t.Helper()
	s := testSpec(t)
	s.Konnectivity = &component.Konnectivity{
		Program: component.DefaultKonnectivityProgram, AgentPort: component.DefaultAgentPort,
	}
	return s
}

// tunneled returns the machine of s, a replica with a proxy server.
func tunneled(t *testing.T, s Spec) machine.Observed {
	t.Helper()
	f := converged(t, s)
	f.Facts.Dirs["/usr/local/bin"] = []string{"proxy-server"}
	return f
}

func TestKonnectivityDrift(t *testing.T) {
	for _, c := range []struct {
		name  string
		alter func(*Spec, *machine.Observed)
		want  string
	}{
		{"none", func(*Spec, *machine.Observed) {}, ""},
		{"selector edited", func(_ *Spec, f *machine.Observed) {
			replace(f, component.EgressSelectorPath, "GRPC", "Direct")
		}, component.EgressSelectorPath + " has different content"},
		{"kubeconfig removed", func(_ *Spec, f *machine.Observed) {
			delete(f.Facts.Files, component.KonnectivityConf)
		}, component.KonnectivityConf + " is missing"},
		{"certificate for another endpoint", func(s *Spec, _ *machine.Observed) {
			s.EndpointHost6 = "fd00::100"
		}, "kube-konnectivity-server certificate lacks fd00::100"},
		{"port edited", func(_ *Spec, f *machine.Observed) {
			replace(f, unit.Path(component.KonnectivityServer), "--agent-port=8132", "--agent-port=9132")
		}, `flag --agent-port is "9132", wanted "8132"`},
		{"program removed", func(_ *Spec, f *machine.Observed) {
			f.Facts.Dirs["/usr/local/bin"] = nil
		}, "/usr/local/bin/proxy-server is missing"},
		{"stopped", func(_ *Spec, f *machine.Observed) {
			f.Facts.Units["kube-konnectivity-server.service"] = host.UnitState{
				Load: "loaded", Active: "inactive", Enabled: "enabled",
			}
		}, "kube-konnectivity-server.service is inactive"},
		{"not wanted", func(s *Spec, _ *machine.Observed) {
			s.Konnectivity = nil
		}, "kube-konnectivity-server.service exists, but is not wanted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := withKonnectivity(t)
			f := tunneled(t, s)
			c.alter(&s, &f)
			problems := strings.Join(drift(s.Replica, f, cptest.Now), "\n")
			if (problems == "") != (c.want == "") || !strings.Contains(problems, c.want) {
				t.Errorf("drift:\n%s\nwant %q", problems, c.want)
			}
		})
	}
}

// TestKonnectivityRestarts: the proxy server is restarted only while the API server is down, and a
// restart of the API server leaves it alone.
func TestKonnectivityRestarts(t *testing.T) {
	both := []string{release.APIServer, component.KonnectivityServer}
	for _, c := range []struct {
		name  string
		alter func(*Spec, *machine.Observed)
		want  []string
	}{
		{"nothing", func(*Spec, *machine.Observed) {}, nil},
		{"port", func(s *Spec, _ *machine.Observed) {
			s.Konnectivity = &component.Konnectivity{Program: s.Konnectivity.Program, AgentPort: 9132}
		}, both},
		{"certificate", func(s *Spec, _ *machine.Observed) { s.EndpointHost6 = "fd00::100" }, both},
		{"flag of the API server", func(s *Spec, _ *machine.Observed) {
			s.ExtraArgs = cptest.Args(release.APIServer, "v", "4")
		}, []string{release.APIServer}},
		{"API server is down", func(_ *Spec, f *machine.Observed) {
			f.Facts.Units["kube-apiserver.service"] = host.UnitState{Load: "loaded", Active: "failed"}
		}, release.Components()},
		{"removed", func(s *Spec, _ *machine.Observed) { s.Konnectivity = nil }, []string{release.APIServer}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := withKonnectivity(t)
			f := tunneled(t, s)
			c.alter(&s, &f)
			d, err := decide(s.Replica, f, cptest.Now)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(slices.Sorted(slices.Values(d.restart)), slices.Sorted(slices.Values(c.want))) {
				t.Errorf("restarts %q, want %q", d.restart, c.want)
			}
			script := string(startScript(runtime.Of(s.Replica), d))
			stop, proxy := strings.Index(script, "systemctl stop kube-apiserver"),
				strings.Index(script, "unit=kube-konnectivity-server.service")
			start := strings.LastIndex(script, "unit=kube-apiserver.service")
			if restarts := d.restarts(component.KonnectivityServer); restarts != (proxy >= 0) ||
				restarts && (stop < 0 || stop > proxy || proxy > start) {
				t.Errorf("the order is not stop, proxy server, start:\n%s", script)
			}
		})
	}
}

// TestKonnectivityRemoved: what an unwanted proxy server needs stays until the API server has been
// restarted without it; the configuration that only the API server reads goes before.
func TestKonnectivityRemoved(t *testing.T) {
	s := withKonnectivity(t)
	f := tunneled(t, s)
	s.Konnectivity = nil
	d, err := decide(s.Replica, f, cptest.Now)
	if err != nil {
		t.Fatal(err)
	}
	want := append(component.KonnectivityFiles(), unit.Path(component.KonnectivityServer))
	if !slices.Equal(d.konnectivity, want) || !slices.Equal(d.remove, []string{component.EgressSelectorPath}) {
		t.Errorf("removed first %q, then %q", d.remove, d.konnectivity)
	}
	script := string(removeKonnectivityScript(runtime.Named(component.Systemd)))
	stop, files := strings.Index(script, "--now"), strings.Index(script, component.KonnectivityConf)
	definition := strings.LastIndex(script, "rm -f -- "+unit.Path(component.KonnectivityServer))
	if definition < 0 {
		definition = strings.LastIndex(script, unit.Path(component.KonnectivityServer))
	}
	if stop < 0 || files < stop || definition < files {
		t.Errorf("the order is not stop, files, unit file:\n%s", script)
	}
}

// TestKonnectivityRollback: a rollback restores the proxy server as it was, or takes away one that the
// change has added.
func TestKonnectivityRollback(t *testing.T) {
	rollback := func(t *testing.T, wanted Spec, f machine.Observed, was Spec) changes {
		t.Helper()
		record := f.RollbackRecord(was.Bundle.Generations())
		if read := machine.ReadRollbackRecord(string(record.File().Content)); read == nil {
			t.Fatal("the record cannot be read")
		}
		next, err := decide(wanted.Replica, f, cptest.Now)
		if err != nil {
			t.Fatal(err)
		}
		changed := f
		for _, file := range next.files {
			changed.Facts.Files[file.Path] = host.FileState{
				Mode: file.Mode, Owner: file.Owner, Group: file.Group, SHA256: machine.Digest(file.Content),
				Content: string(file.Content),
			}
		}
		wanted.Previous = &component.Previous{Definitions: record.Definitions, Settings: record.Settings}
		d, err := decide(wanted.Replica, changed, cptest.Now)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	t.Run("added", func(t *testing.T) {
		was := testSpec(t)
		d := rollback(t, withKonnectivity(t), converged(t, was), was)
		if len(d.konnectivity) != 4 || d.restarts(component.KonnectivityServer) || d.writes(component.EgressSelectorPath) {
			t.Errorf("%q is removed, %q restarted", d.konnectivity, d.restart)
		}
	})
	t.Run("changed", func(t *testing.T) {
		was := withKonnectivity(t)
		next := withKonnectivity(t)
		next.Bundle = was.Bundle
		next.Konnectivity.AgentPort = 9132
		d := rollback(t, next, tunneled(t, was), was)
		i := slices.IndexFunc(d.files, func(file host.File) bool {
			return file.Path == unit.Path(component.KonnectivityServer)
		})
		if i < 0 || !strings.Contains(string(d.files[i].Content), "--agent-port=8132") || len(d.konnectivity) > 0 {
			t.Errorf("the unit is not restored: %+v", d.restart)
		}
	})
	t.Run("removed", func(t *testing.T) {
		was := withKonnectivity(t)
		next := testSpec(t)
		next.Bundle = was.Bundle
		d := rollback(t, next, tunneled(t, was), was)
		if len(d.konnectivity) > 0 || !d.writes(component.EgressSelectorPath) || d.restarts(component.KonnectivityServer) {
			t.Errorf("%q is removed, %q restarted", d.konnectivity, d.restart)
		}
	})
}

// TestKonnectivityImport: the settings are read from the unit, and the API server's group is not taken
// for one of the user.
func TestKonnectivityImport(t *testing.T) {
	s := withKonnectivity(t)
	s.Konnectivity = &component.Konnectivity{Program: "/opt/konnectivity/0.36.0/proxy-server", AgentPort: 9132}
	s.SupplementaryGroups = []string{"kms"}
	s.Registration = []byte(`{"Address": "10.0.0.100"}`)
	got, err := imported(s.Host, machineOf(t, s), EndpointReader{At: endpointIn})
	if err != nil {
		t.Fatal(err)
	}
	if got.Konnectivity == nil || *got.Konnectivity != *s.Konnectivity ||
		!slices.Equal(got.SupplementaryGroups, []string{"kms"}) || len(got.ExtraArgs) > 0 {
		t.Errorf("got %+v, groups %q, arguments %q", got.Konnectivity, got.SupplementaryGroups, got.ExtraArgs)
	}
	if got := konnectivityIn(runtime.Named(component.Systemd), "no unit"); got.AgentPort != component.DefaultAgentPort {
		t.Errorf("a unit that cannot be parsed gives %+v", got)
	}
	by := runtime.Named(component.Systemd)
	unit := machineOf(t, s).Files[by.Path(component.KonnectivityServer)].Content
	for text, want := range map[string]int{
		"1023": component.DefaultAgentPort, "1024": 1024, "1025": 1025, "65534": 65534, "65535": 65535,
		"65536": component.DefaultAgentPort, "0": component.DefaultAgentPort, "8132x": component.DefaultAgentPort,
		"99999999999999999999": component.DefaultAgentPort,
	} {
		edited := strings.Replace(unit, "--agent-port=9132", "--agent-port="+text, 1)
		if got := konnectivityIn(by, edited); edited == unit || got.AgentPort != want {
			t.Errorf("the port %s is read as %d, want %d", text, got.AgentPort, want)
		}
	}
}

// TestKeepsAgentPort: agents are required to return only to the port that they know.
func TestKeepsAgentPort(t *testing.T) {
	s := withKonnectivity(t)
	f := tunneled(t, s)
	if !keepsAgentPort(s.Replica, f) {
		t.Error("the port is the same")
	}
	s.Konnectivity = &component.Konnectivity{Program: s.Konnectivity.Program, AgentPort: 9132}
	if keepsAgentPort(s.Replica, f) || keepsAgentPort(s.Replica, bare()) {
		t.Error("another port, or none, is taken for the same")
	}
	s.Konnectivity = nil
	if keepsAgentPort(s.Replica, f) {
		t.Error("a proxy server that is not wanted keeps its port")
	}
}

// TestAgentsWait: agents that were connected are required to return before the replica is registered, or after that if
// only a replica in rotation is reached. A drain of such a replica may end their connections too.
func TestAgentsWait(t *testing.T) {
	returning, first := agentsWait{limit: agentsReturn, required: true}, agentsWait{limit: agentsMayReturn}
	firstAfter := agentsWait{limit: agentsMayReturn, registered: true}
	returningAfter := agentsWait{limit: agentsReturn + agentsFollow, required: true, registered: true}
	for name, c := range map[string]struct {
		before           agentsBefore
		reached, rotated agentsWait
	}{
		"connected, restarted":     {agentsBefore{restarts: true, connected: true}, returning, returningAfter},
		"connected, not restarted": {agentsBefore{connected: true}, agentsWait{}, returningAfter},
		"expected, restarted":      {agentsBefore{restarts: true, expected: true}, first, firstAfter},
		"expected, not restarted":  {agentsBefore{expected: true}, agentsWait{}, agentsWait{}},
		"none":                     {agentsBefore{restarts: true}, agentsWait{}, agentsWait{}},
	} {
		for reach, want := range map[bool]agentsWait{true: c.reached, false: c.rotated} {
			c.before.reachDrained = reach
			if got := c.before.wait(); got != want {
				t.Errorf("%s, a drained replica is reached: %t: %+v, want %+v", name, reach, got, want)
			}
		}
	}
}

// TestAgentsToAwait: a change of a replica that is there waits for agents that may come, after its registration if
// they reach it only in rotation. One that stops nothing, or leaves no proxy server, waits for none.
func TestAgentsToAwait(t *testing.T) {
	s := withKonnectivity(t)
	f := tunneled(t, s)
	s.Host = unreachable(t).Host
	f.Record.ClusterID = s.Bundle.ClusterID
	both := changes{restart: []string{release.APIServer, component.KonnectivityServer}}
	for _, announces := range []bool{false, true} {
		s.Registrar = &recordingRegistrar{announces: announces}
		r, want := NewReplicas(nil), agentsWait{limit: agentsMayReturn, registered: announces}
		if got := r.agentsToAwait(t.Context(), s, f, both); got != want {
			t.Errorf("announces %t: %+v, want %+v", announces, got, want)
		}
		if got := r.agentsToAwait(t.Context(), s, f, changes{}); got != (agentsWait{}) {
			t.Errorf("announces %t, nothing stops: %+v", announces, got)
		}
		removed := s
		removed.Konnectivity = nil
		if got := r.agentsToAwait(t.Context(), removed, f, both); got != (agentsWait{}) {
			t.Errorf("announces %t, removed: %+v", announces, got)
		}
	}
}

// TestAgentsDoNotReturn: agents that were connected and do not return fail a change, which says whether the replica is
// in rotation. Agents that may come do not. A cancellation is not their failure.
func TestAgentsDoNotReturn(t *testing.T) {
	s := unreachable(t)
	for _, c := range []struct {
		w    agentsWait
		want string
	}{
		{agentsWait{}, ""},
		{agentsWait{limit: time.Millisecond}, ""},
		{agentsWait{limit: time.Millisecond, registered: true}, ""},
		{agentsWait{limit: time.Millisecond, required: true}, "the API server would not reach Services and Pods"},
		{
			agentsWait{limit: time.Millisecond, required: true, registered: true},
			"Unchanged: the replica serves, and is in rotation",
		},
	} {
		err := awaitAgents(t.Context(), s, c.w)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(cptest.Text(err), c.want) {
			t.Errorf("%+v: %v, want %q", c.w, err, c.want)
		}
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	err := awaitAgents(cancelled, s, agentsWait{limit: time.Minute, required: true})
	var p *problem.Problem
	if !errors.Is(err, context.Canceled) || errors.As(err, &p) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestAsObserved: whether a replica was ready before a change is asked of what it had then.
func TestAsObserved(t *testing.T) {
	with, without := withKonnectivity(t), testSpec(t)
	if s := asObserved(with, converged(t, without)); s.Konnectivity != nil {
		t.Error("a proxy server that is added is asked before it is there")
	}
	if s := asObserved(without, tunneled(t, with)); s.Konnectivity == nil {
		t.Error("a proxy server that is removed is not asked")
	}
}

// TestKonnectivityIsNotHidden: a proxy server that fails is named also while the API server is not ready,
// which does not cause it.
func TestKonnectivityIsNotHidden(t *testing.T) {
	s := unreachable(t)
	w := readinessWait{reasons: map[string]string{
		release.APIServer: "does not answer", release.Scheduler: "does not answer",
		component.KonnectivityServer: "ended 3 times after its start",
	}}
	text := cptest.Text(w.explain(t.Context(), s, errNotReady))
	if !strings.Contains(text, "Cause: kube-apiserver does not answer; kube-konnectivity-server ended 3 times") {
		t.Error(text)
	}
}

// TestKonnectivityProbed: a proxy server is probed on its machine. One that is not restarted by that is drift, and
// restarted while the API server is down.
func TestKonnectivityProbed(t *testing.T) {
	s := withKonnectivity(t)
	name := unit.Name(component.KonnectivityServer)
	line := name + " http://127.0.0.1:8134/healthz http://127.0.0.1:8134/healthz alone"
	for _, wanted := range []bool{true, false} {
		s.LivenessProbe = wanted
		script := ""
		for _, file := range machine.Liveness(s.Replica).Job().Files {
			script += string(file.Content)
		}
		if strings.Contains(script, line) != wanted {
			t.Errorf("wanted %t: the script is\n%.1500s", wanted, script)
		}
	}
	s.LivenessProbe = true
	f := tunneled(t, s)
	probe := machine.Liveness(s.Replica)
	invocation := strings.Repeat("0a", 16)
	state := f.Facts.Units[name]
	state.Invocation = invocation
	f.Facts.Units[name] = state
	f.Facts.Units[probe.Job().Timer()] = host.UnitState{Load: "loaded", Active: "active", Enabled: "enabled"}
	f.Facts.Files[probe.StatePath(name)] = host.FileState{Content: invocation + " 1 16 5 300\n"}
	if problems := strings.Join(drift(s.Replica, f, cptest.Now), "\n"); !strings.Contains(problems,
		"kube-konnectivity-server: it has not been ready for longer than 4m0s (16 liveness probes in a row failed)") {
		t.Errorf("drift:\n%s", problems)
	}
	for _, c := range component.Of(s.Replica) {
		reason := machine.RestartReason(c, f, nil)
		if hangs := strings.HasPrefix(reason, "it has not been ready"); hangs != (c.Name == component.KonnectivityServer) {
			t.Errorf("%s is restarted because %s", c.Name, reason)
		}
	}
}
