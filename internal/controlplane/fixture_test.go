package controlplane

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/client"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/componenttest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/unit"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// testSpec returns a stacked replica. Callers may modify it.
func testSpec(t *testing.T) Spec {
	t.Helper()
	s := componenttest.Stacked(t)
	return Spec{Replica: s, Host: testHost(t, host.Config{}, s.Address)}
}

func testHost(t *testing.T, config host.Config, address string) *host.Host {
	t.Helper()
	pool, err := host.NewPool(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	return pool.Host(host.Target{Address: address})
}

// bare returns a machine that was never changed.
func bare() machine.Observed {
	return machine.Interpret(cptest.BareMachine())
}

// converged returns the bare machine after everything that decide wants was applied.
func converged(t *testing.T, s Spec) machine.Observed {
	t.Helper()
	return convergedAt(t, s, cptest.Now)
}

// convergedAt is converged, with certificates that were issued at a time.
func convergedAt(t *testing.T, s Spec, now time.Time) machine.Observed {
	t.Helper()
	d, err := decide(s.Replica, bare(), now)
	if err != nil {
		t.Fatal(err)
	}
	facts := bare().Facts
	for _, file := range d.files {
		facts.Files[file.Path] = host.FileState{
			Mode: file.Mode, Owner: file.Owner, Group: file.Group,
			SHA256: machine.Digest(file.Content), Content: string(file.Content),
		}
	}
	plain := regexp.MustCompile(machine.PlainLines)
	for _, k := range component.Kubeconfigs(s.Replica) {
		facts.Output += machine.SectionHeading + k.Path + "\n"
		for line := range strings.Lines(facts.Files[k.Path].Content) {
			if plain.MatchString(strings.TrimRight(line, "\n")) {
				facts.Output += line
			}
		}
	}
	if s.Runtime == component.StaticPod {
		facts.Output = podReport(s, facts) + facts.Output
		return machine.Interpret(facts)
	}
	for _, c := range component.Of(s.Replica) {
		note := ""
		for _, path := range append([]string{unit.Path(c.Name)}, c.Inputs...) {
			note += facts.Files[path].SHA256 + "  " + path + "\n"
		}
		facts.Files[unit.StartNotePath(c.Name)] = host.FileState{Content: note}
		facts.Units[unit.Name(c.Name)] = host.UnitState{
			Load: "loaded", Active: "active", Sub: "running", Enabled: "enabled", MainPID: 7, Result: "success",
		}
		facts.Output += machine.SectionHeading + c.Name + "\n" + c.Program + "\n"
		facts.Dirs["/opt/kube/kubernetes/"+s.Version] = append(facts.Dirs["/opt/kube/kubernetes/"+s.Version], c.Name)
	}
	return machine.Interpret(facts)
}

const healthy = client.Healthy

// unreachable returns a machine on which no process listens.
func unreachable(t *testing.T) Spec {
	t.Helper()
	s := testSpec(t)
	s.Address = "127.0.0.1"
	s.Host = testHost(t, host.Config{
		Credentials: host.Credentials{Port: 1}, KnownHosts: "", ConnectTimeout: time.Second,
	}, s.Address)
	return s
}
