package simulated

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	cpmachine "github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/runtime"
)

// noting is an endpoint that notes which replicas are changed.
type noting struct {
	controlplane.Registrar
	mu    sync.Mutex
	calls []string
}

func (e *noting) note(call string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls = append(e.calls, call)
}

func (e *noting) take() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	calls := e.calls
	e.calls = nil
	return calls
}

func (e *noting) Drain(_ context.Context, name string) error { e.note("drain " + name); return nil }

func (e *noting) Register(_ context.Context, name, address string) error {
	e.note("register " + name + " " + address)
	return nil
}

// TestRecordWithAnotherName: while a member changes, a machine whose record has the name of another replica takes
// nothing from that one, also if it has a balancer, which says that the replica is here.
func TestRecordWithAnotherName(t *testing.T) {
	fleet, p := planeOn(t, 1)
	first, s := fleet.clusters[0].machines[0], p.servers[0]
	e := &noting{Registrar: s.Registrar}
	begin := func() error {
		outage := p.replicas.Outage(controlplane.StackedMember{
			Host: s.Host, Bundle: s.Bundle, EtcdURL: s.EtcdURLs[0],
			Registrar: func(controlplane.Recorded) (controlplane.Registrar, error) { return e, nil },
		})
		defer outage.Open()()
		return outage.Begins(t.Context())
	}
	end := func() error {
		return p.replicas.Outage(controlplane.StackedMember{
			Host: s.Host, Bundle: s.Bundle, EtcdURL: s.EtcdURLs[0],
			Registrar: func(controlplane.Recorded) (controlplane.Registrar, error) { return e, nil },
		}).Ended(t.Context())
	}
	if err := end(); err != nil || !slices.Equal(e.take(), []string{"register cp1 " + s.ServingAddress()}) {
		t.Fatalf("its own name: %v", err)
	}
	rewrite := func(path, from, to string) {
		text := first.content(path)
		if !strings.Contains(text, from) {
			t.Fatalf("%s has no %s: %s", path, from, text)
		}
		first.mu.Lock()
		defer first.mu.Unlock()
		f := first.files[path]
		f.content = strings.Replace(text, from, to, 1)
		first.write(path, f)
	}
	refused := func(what string) {
		t.Helper()
		err := begin()
		if calls := e.take(); err == nil || !strings.Contains(err.Error(), "cp2") || len(calls) > 0 {
			t.Errorf("%s: a change begins: %q, %v", what, calls, err)
		}
		_ = end() // what is wrong with a replica that runs is no failure of its member
		if calls := e.take(); len(calls) > 0 {
			t.Errorf("%s: a change ends: %q", what, calls)
		}
	}
	rewrite(cpmachine.RecordPath, `"name": "cp1"`, `"name": "cp2"`)
	refused("the record")
	other := p.servers[1].ServingAddress()
	rewrite(backendsPath, "server cp2 "+other, "server cp2 "+s.ServingAddress())
	refused("the record and a balancer")
	first.mu.Lock()
	first.write(runtime.Named("").PausedPath(), file{mode: "644", owner: "root", group: "root"})
	first.mu.Unlock()
	err := end()
	if calls := e.take(); err == nil || !strings.Contains(err.Error(), "cp2") || len(calls) > 0 {
		t.Errorf("a paused one: %q, %v", calls, err)
	}
}
