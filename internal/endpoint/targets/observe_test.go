package targets

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// TestNamed: a replica that has left the endpoint for another one is still the target of its name, so that what it has
// there can be removed. Another one is not.
func TestNamed(t *testing.T) {
	for want, observed := range map[string]Replica{
		"itself": {Name: "cp1", ClusterID: "a", Port: 6443, Endpoints: []string{"haproxy 10.0.0.100"}},
		"shared": {Name: "cp9", ClusterID: "a", Port: 6443, Endpoints: []string{"dns api.example.com"}},
		"other":  {Name: "cp1", ClusterID: "b", Port: 6443, Endpoints: []string{"dns api.example.com"}},
	} {
		s := NewObserver(nil, func(context.Context, string) (Replica, error) { return observed, nil }).For(
			endpoint.Registration{
				Kind: endpoint.DNS, Address: "api.example.com", ClusterID: "a", Hosts: map[string]string{"cp1": "10.0.0.1"},
			})
		got := s.Named(t.Context(), "cp1")
		if (got.Other == "") != (want == "itself") || got.Shared != (want == "shared") {
			t.Errorf("%s: %+v", want, got)
		}
		if next := got.Occupant(); got.Shared && (next.Name != "cp9" || next.At() != "10.0.0.1:6443") {
			t.Errorf("the occupant is %+v", next)
		}
	}
}

// closedPool returns a pool through which no API server answers.
func closedPool(t *testing.T) *host.Pool {
	t.Helper()
	pool, err := host.NewPool(host.Config{})
	if err == nil {
		err = pool.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return pool
}

// TestForeignAPIServer: a target with an API server that has no record counts for changes of the others, and is no
// replica of the endpoint. A machine without one does not count.
func TestForeignAPIServer(t *testing.T) {
	pool := closedPool(t)
	recorded := map[string]Replica{
		"127.0.0.1": {Name: "cp1", ClusterID: "a", Port: 6443, Endpoints: []string{"external 10.0.0.100"}},
		"127.0.0.2": {Foreign: true, ClusterID: "a"},
		"127.0.0.3": {},
		"127.0.0.4": {Foreign: true, ClusterID: "b"}, // of another cluster
		"127.0.0.5": {Name: "cp5", ClusterID: "a", Port: 8443, Endpoints: []string{"haproxy 10.0.0.100"}},
		"127.0.0.6": {Name: "cp9", ClusterID: "a", Port: 8443, Endpoints: []string{"haproxy 10.0.0.100"}},
	}
	s := NewObserver(func(string) *host.Host { return pool.Host(host.Target{Address: "127.0.0.1"}) },
		func(_ context.Context, address string) (Replica, error) { return recorded[address], nil }).For(
		endpoint.Registration{
			Kind: endpoint.External, Address: "10.0.0.100", ClusterID: "a", TargetPort: 7443,
			Hosts: map[string]string{
				"cp1": "127.0.0.1", "cp2": "127.0.0.2", "cp3": "127.0.0.3", "cp4": "127.0.0.4", "cp5": "127.0.0.5",
				"cp6": "127.0.0.6",
			},
		})
	listed, err := s.Replicas(t.Context())
	if err != nil || len(listed) != 2 || listed["cp2"] != "127.0.0.2:7443" {
		t.Errorf("the endpoint lists %v, %v", listed, err)
	}
	seen := s.Observe(t.Context())
	if got := seen.members(); len(got) != 1 || seen["cp2"].Ready() || seen["cp2"].Member() || seen["cp4"].Other == "" {
		t.Errorf("replicas of the endpoint are %v; %+v", got, seen["cp2"])
	}
	for _, name := range []string{"cp3", "cp5", "cp6"} { // cp5 has other endpoints by now, and leaves this one
		got := s.WithMoved(t.Context(), seen, name)[name]
		if got.Member() != (name == "cp5") || got.Member() && (got.At() != "127.0.0.5:8443" || got.Ready()) {
			t.Errorf("%s leaves as %+v", name, got)
		}
	}
	leaving := s.ObserveInRotation(t.Context(), "cp5", func(context.Context, Target) error { return nil })
	if !leaving["cp5"].Member() || leaving["cp6"].Member() {
		t.Errorf("cp5 leaves the endpoint as %+v, and cp6 is %+v", leaving["cp5"], leaving["cp6"])
	}
	if seen["cp5"].Member() || !seen["cp5"].SameCluster {
		t.Errorf("a replica of other endpoints is observed as %+v", seen["cp5"])
	}
	if s.Named(t.Context(), "cp2").Other != "" {
		t.Error("its machine has another replica")
	}
}

// TestMovingReplica: a replica that moves, and has not arrived, counts at the endpoint that it leaves. While it is not
// ready, nobody else leaves there.
func TestMovingReplica(t *testing.T) {
	pool := closedPool(t)
	recorded := map[string]Replica{
		"127.0.0.1": {
			Name: "cp1", ClusterID: "a", Port: 6443, Endpoints: []string{"dns api.example.com", "external 10.0.0.100"},
		},
		"127.0.0.2": {Name: "cp2", ClusterID: "a", Port: 6443, Endpoints: []string{"external 10.0.0.100"}},
	}
	s := NewObserver(func(string) *host.Host { return pool.Host(host.Target{Address: "127.0.0.1"}) },
		func(_ context.Context, address string) (Replica, error) { return recorded[address], nil }).For(
		endpoint.Registration{
			Kind: endpoint.External, Address: "10.0.0.100", ClusterID: "a", TargetPort: 6443,
			Hosts: map[string]string{"cp1": "127.0.0.1", "cp2": "127.0.0.2"},
		})
	seen := s.Observe(t.Context())
	if moving := seen["cp1"]; !moving.Member() || moving.Moved || moving.Ready() {
		t.Errorf("it is observed as %+v", moving)
	}
	other := seen["cp2"]
	other.NotReady = nil
	seen["cp2"] = other
	for _, how := range []Leaving{ToReturn, ForGood, AsLast} {
		if why, last := mayLeave("cp2", seen, how); why == "" || !last {
			t.Errorf("%d: the other one may leave: %q", how, why)
		}
	}
}

// TestSupersededWait: a Create of the same endpoint begins while its Delete waits for replicas, which stay. Without it,
// the Delete is refused, and the refusal names the way out for a state that has the endpoint twice.
func TestSupersededWait(t *testing.T) {
	replica := Replica{Name: "cp1", ClusterID: "a", Port: 6443, Endpoints: []string{"dns api.example.com"}}
	pool, err := host.NewPool(host.Config{})
	if err == nil {
		err = pool.Close() // no machine answers
	}
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	for _, test := range []struct {
		name       string
		superseded endpoint.Superseded
		wait       time.Duration
		want       error
	}{
		{"while it waits", func() bool { asked++; return asked > 1 }, time.Hour, endpoint.ErrSuperseded},
		{"in its last round", func() bool { return true }, 0, endpoint.ErrSuperseded},
		{"never", func() bool { return false }, 0, nil},
		{"nobody knows", nil, 0, nil},
	} {
		s := NewObserver(func(string) *host.Host { return pool.Host(host.Target{Address: "127.0.0.1"}) },
			func(context.Context, string) (Replica, error) { return replica, nil }).For(endpoint.Registration{
			Kind: endpoint.DNS, Address: "api.example.com", ClusterID: "a", Hosts: map[string]string{"cp1": "127.0.0.1"},
		})
		remaining, err := s.WaitUntilEmpty(t.Context(), test.wait, test.superseded)
		if !errors.Is(err, test.want) || (len(remaining) > 0) != (test.want == nil) {
			t.Errorf("%s: %v, %v", test.name, remaining, err)
		}
		if len(remaining) > 0 && !strings.Contains(s.InUseError(remaining).Error(), "terraform state rm") {
			t.Errorf("%s: %v", test.name, s.InUseError(remaining))
		}
	}
}

// TestEmptyUnobserved: an endpoint of which no target can be observed may have replicas, unless all were abandoned. One
// that says something is enough.
func TestEmptyUnobserved(t *testing.T) {
	pool, err := host.NewPool(host.Config{})
	if err == nil {
		err = pool.Close() // no machine answers
	}
	if err != nil {
		t.Fatal(err)
	}
	lost, unread := fmt.Errorf("dial: %w", host.ErrUnreachable), errors.New("the record is not JSON")
	for name, c := range map[string]struct {
		errs      map[string]error // by address
		abandoned []string
		want      []string // of the error
	}{
		"none":          {map[string]error{"10.0.0.1": lost, "10.0.0.2": lost}, nil, []string{"abandon_", `"10.0.0.2"`}},
		"one says so":   {map[string]error{"10.0.0.1": lost}, nil, nil},
		"one abandoned": {map[string]error{"10.0.0.1": lost, "10.0.0.2": lost}, []string{"10.0.0.1"}, []string{"dial"}},
		"all abandoned": {map[string]error{"10.0.0.1": lost, "10.0.0.2": lost}, []string{"10.0.0.1", "10.0.0.2"}, nil},
		"records": {map[string]error{"10.0.0.1": unread, "10.0.0.2": lost}, []string{"10.0.0.1", "10.0.0.2"}, []string{
			"not JSON",
		}},
	} {
		o := NewObserver(func(string) *host.Host { return pool.Host(host.Target{Address: "127.0.0.1"}) },
			func(_ context.Context, address string) (Replica, error) { return Replica{}, c.errs[address] })
		o.Abandoned = host.AbandonedAt(c.abandoned...)
		s := o.For(endpoint.Registration{
			Kind: endpoint.External, ClusterID: "a", Address: "10.0.0.100",
			Hosts: map[string]string{"cp1": "10.0.0.1", "cp2": "10.0.0.2"},
		})
		remaining, err := s.WaitUntilEmpty(t.Context(), 0, nil)
		if len(remaining) > 0 || (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v, %v", name, remaining, err)
		}
		for _, want := range c.want {
			if err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
	}
}

// TestHungTarget: a machine that hangs is named before the time of the caller has passed.
func TestHungTarget(t *testing.T) {
	s := NewObserver(nil, func(ctx context.Context, _ string) (Replica, error) {
		<-ctx.Done()
		return Replica{}, ctx.Err()
	}).For(endpoint.Registration{
		Kind: endpoint.External, ClusterID: "a", Address: "10.0.0.100", Hosts: map[string]string{"cp1": "10.0.0.11"},
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := s.Replicas(ctx)
	if ctx.Err() != nil || !errors.Is(err, host.ErrNoAnswer) || !strings.Contains(err.Error(), "10.0.0.11") {
		t.Errorf("got %v, want that the machine does not answer", err)
	}
	if err := s.checkIssuer(ctx, nil); ctx.Err() != nil || err != nil {
		t.Errorf("an endpoint that answers is refused, or waits for the machine: %v", err)
	}
}

// TestUnobservedNext: the next step names the machines that the user may give up, and not one that hangs.
func TestUnobservedNext(t *testing.T) {
	lost := fmt.Errorf("dial: %w", host.ErrUnreachable)
	s := NewObserver(nil, nil).For(endpoint.Registration{Kind: endpoint.DNS, Address: "api.example.com"})
	err := s.unobserved(Observed{
		"cp1": {Address: "10.0.0.11", Unreachable: lost},
		"cp2": {Address: "10.0.0.12", Unreachable: fmt.Errorf("%w: %w", host.ErrUnreachable, host.ErrNoAnswer)},
	})
	var p *problem.Problem
	if !errors.As(err, &p) || !strings.HasSuffix(p.Next, host.AbandonRemedy("10.0.0.11")) {
		t.Errorf("got %v", err)
	}
}
