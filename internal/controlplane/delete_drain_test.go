package controlplane

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// leaving returns a replica that is deleted, whose cluster is protected from deletion or not.
func leaving(t *testing.T, protected bool, r *recordingRegistrar) Spec {
	t.Helper()
	s := testSpec(t)
	bundle := *s.Bundle
	bundle.Deletable = !protected
	s.Bundle, s.Registrar = &bundle, r
	if r.members == nil {
		r.members = map[string]string{s.Name: s.ServingAddress()}
	}
	return s
}

func TestLastReplicaStays(t *testing.T) {
	for _, c := range []struct {
		name      string
		protected bool
		last      bool // as reported by the load balancers
		before    func(*Replicas, Spec)
		creates   []string
		want      string
	}{
		{"one of several, protected", true, false, nil, nil, ""},
		{"the last, unprotected", false, true, nil, nil, ""},
		{
			"the last, protected", true, true, nil, nil,
			"set deletion_protection = false on the kube_pki_bundle, apply, then destroy",
		},
		{"the last, unprotected, while a create has failed", false, true, func(r *Replicas, s Spec) {
			s.Name = "cp9"
			r.inProgress.create(s)(errors.New("a bad flag"))
		}, nil, "failed to create cp9 (10.0.0.11)"},
		{"the last, unprotected, after that create was mended", false, true, func(r *Replicas, s Spec) {
			s.Name = "cp9"
			r.inProgress.create(s)(errors.New("a bad flag"))
			r.inProgress.forget(s)
		}, nil, ""},
		{
			"the last, unprotected, while a member is being made", false, true, nil,
			[]string{"etcd member cp9"},
			"failed to create etcd member cp9",
		},
		{"one of several while a create has failed", false, false, func(r *Replicas, s Spec) {
			s.Name = "cp9"
			r.inProgress.create(s)(errors.New("a bad flag"))
		}, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			registrar := &recordingRegistrar{last: c.last}
			s := leaving(t, c.protected, registrar)
			r := NewReplicas(nil)
			if c.before != nil {
				c.before(r, s)
			}
			begun := time.Now()
			err := r.drainForDelete(t.Context(), s, DeleteOptions{Creates: func() []string { return c.creates }})
			if (c.want == "") != (err == nil) || !strings.Contains(cptest.Text(err), c.want) {
				t.Fatalf("%v, want %q", err, c.want)
			}
			want := []string{"drain for delete", "deregister"}
			if err != nil {
				want = want[:1]
				if !problem.Untouched(err) || time.Since(begun) > 5*time.Second {
					t.Errorf("after %s: %v, want a refusal at once", time.Since(begun), err)
				}
			}
			if calls := registrar.take(); !slices.Equal(calls, want) {
				t.Errorf("calls %q, want %q", calls, want)
			}
		})
	}
}

func TestSupersededDelete(t *testing.T) {
	superseded := false
	for _, c := range []struct {
		name  string
		begin func(*recordingRegistrar) // when the Create of the same identity begins
		calls []string
	}{
		{"before the lock", func(*recordingRegistrar) { superseded = true }, nil},
		{
			"in the middle of the drain", func(r *recordingRegistrar) { r.drains = func(string) { superseded = true } },
			[]string{"drain for delete", "undrain"},
		},
		{"never", func(*recordingRegistrar) {}, []string{"drain for delete", "deregister"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			superseded = false
			registrar := &recordingRegistrar{}
			s := leaving(t, false, registrar)
			c.begin(registrar)
			err := NewReplicas(nil).drainForDelete(t.Context(), s, DeleteOptions{Superseded: func() bool { return superseded }})
			if superseded != errors.Is(err, errSuperseded) {
				t.Errorf("error %v, superseded %t", err, superseded)
			}
			if calls := registrar.take(); !slices.Equal(calls, c.calls) {
				t.Errorf("calls %q, want %q", calls, c.calls)
			}
		})
	}
}

// TestSupersededWhileWaiting: another replica has the lock until the Create begins.
func TestSupersededWhileWaiting(t *testing.T) {
	registrar := &recordingRegistrar{}
	s := leaving(t, false, registrar)
	r := NewReplicas(nil)
	other := s
	other.Name = "cp2"
	lock, err := r.changeLocks.acquire(t.Context(), other)
	if err != nil {
		t.Fatal(err)
	}
	begun := make(chan struct{})
	left := make(chan error, 1)
	go func() {
		left <- r.drainForDelete(t.Context(), s, DeleteOptions{Superseded: func() bool {
			select {
			case <-begun:
				return true
			default:
				return false
			}
		}})
	}()
	time.Sleep(50 * time.Millisecond)
	close(begun)
	lock.finish(true)
	if err := <-left; !errors.Is(err, errSuperseded) {
		t.Errorf("error %v", err)
	}
	if calls := registrar.take(); calls != nil {
		t.Errorf("calls %q", calls)
	}
}

// TestNameRegisteredForAnotherMachine: with create_before_destroy, the name belongs to the new machine by
// the time the old one leaves.
func TestNameRegisteredForAnotherMachine(t *testing.T) {
	registrar := &recordingRegistrar{members: map[string]string{"cp1": "10.0.0.99:6443"}}
	s := leaving(t, true, registrar)
	if err := NewReplicas(nil).drainForDelete(t.Context(), s, DeleteOptions{}); err != nil {
		t.Error(err)
	}
	if calls := registrar.take(); calls != nil {
		t.Errorf("the other machine's registration was changed: %q", calls)
	}
}

// TestDrainForDeleteAsksBalancers: if no load balancer answers, nothing is changed.
func TestDrainForDeleteAsksBalancers(t *testing.T) {
	registrar := &recordingRegistrar{unasked: errors.New("no balancer answers")}
	s := leaving(t, false, registrar)
	if err := NewReplicas(nil).drainForDelete(context.Background(), s, DeleteOptions{}); !errors.Is(err,
		registrar.unasked) {
		t.Errorf("error %v", err)
	}
	if calls := registrar.take(); calls != nil {
		t.Errorf("calls %q", calls)
	}
}
