package etcd

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/etcdtest"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// pause pauses the member of s by another process, which knows nothing but its machine.
func (f *fleet) pause(s Spec, do func(context.Context, *PausedMember) error) error {
	at := func(address string) *host.Host {
		for name := range s.Peers {
			if f.address(name) == address {
				return s.Peers[name]
			}
		}
		return nil
	}
	return f.coordinator().PauseMember(f.context(), s.Host, at, f.bundle, do)
}

// setPod lets the machine of a member have the definition of a static pod, or not. It runs units only, so it has none
// while it is observed otherwise.
func (f *fleet) setPod(name string, there bool) {
	m := f.machine(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.files, layout.PodPath)
	if there {
		m.files[layout.PodPath] = host.File{Path: layout.PodPath}
	}
}

// TestPauseMember: the leader hands over before it stops, no other process changes a member meanwhile, and the member
// serves again at the end.
func TestPauseMember(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.three(0)
	leader := leaderOf(f.calm(specs["cp1"]))
	f.setPod(leader, true)
	other := "cp1"
	if leader == other {
		other = "cp2"
	}
	err := f.pause(specs[leader], func(ctx context.Context, m *PausedMember) error {
		f.setPod(leader, false)
		if now := leaderOf(f.view(specs[other])); now == leader {
			t.Errorf("%s leads when it is its turn", now)
		}
		if err := m.Stop(ctx); err != nil {
			return err
		}
		if f.machine(leader).running() {
			t.Error("it runs after Stop")
		}
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if _, err := f.clusters.MoveLeader(short, specs[other], ""); err == nil {
			t.Error("another process has changed a member meanwhile")
		}
		return m.Start(ctx)
	})
	if err != nil {
		t.Fatal(err)
	}
	if m, ok := f.calm(specs[other]).ByName(leader); !ok || !m.Healthy {
		t.Errorf("%+v after the pause", m)
	}

	failed := errors.New("failed")
	f.setPod(other, true)
	err = f.pause(specs[other], func(context.Context, *PausedMember) error { return failed })
	if !errors.Is(err, failed) {
		t.Errorf("%v, want the error of the caller", err)
	}
	f.kill(leader, false)
	err = f.pause(specs[other], func(context.Context, *PausedMember) error {
		t.Error("a turn beside a dead member")
		return nil
	})
	etcdtest.WantError(t, "beside a dead member", err, "etcd member not restarted")
	if !problem.Untouched(err) {
		t.Errorf("something changed: %v", err)
	}
}

// TestPauseStranger: the member of another cluster has no turn here, so nothing may stop it.
func TestPauseStranger(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1")
	f.create(specs, "cp1")
	f.setPod("cp1", true)
	m := f.machine("cp1")
	m.mu.Lock()
	record := m.files[layout.RecordPath]
	record.Content = []byte(strings.ReplaceAll(string(record.Content), f.bundle.ClusterID, "another"))
	m.files[layout.RecordPath] = record
	m.mu.Unlock()
	err := f.pause(specs["cp1"], func(context.Context, *PausedMember) error {
		t.Error("a turn for the member of another cluster")
		return nil
	})
	etcdtest.WantError(t, "another cluster", err, "does not say that it is a member of this cluster")
}

// TestPauseUnmanaged: the member of kubeadm on a machine that is not taken over has no turn, and must not restart
// without one.
func TestPauseUnmanaged(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	s := f.specs("cp1")["cp1"]
	m := f.machine("cp1")
	m.mu.Lock()
	m.files[machine.ManifestPath] = host.File{Path: machine.ManifestPath}
	m.mu.Unlock()
	err := f.pause(s, func(context.Context, *PausedMember) error {
		t.Error("the machine was changed")
		return nil
	})
	etcdtest.WantError(t, "not taken over", err, "import the kube_etcd_member of this machine")
	etcdtest.WantError(t, "not taken over", err, "etcd member not stopped\nHost: "+f.address("cp1"))
}

// TestPauseNoMember: a machine whose member is a unit, or that has none, has nothing to stop.
func TestPauseNoMember(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1", "cp2")
	f.create(specs, "cp1")
	for name, s := range specs {
		called := false
		err := f.pause(s, func(ctx context.Context, m *PausedMember) error {
			called = true
			return errors.Join(m.Stop(ctx), m.Start(ctx))
		})
		if err != nil || !called {
			t.Errorf("%s: %v, called %v", name, err, called)
		}
	}
	if starts := f.machine("cp1").starts; starts != 1 {
		t.Errorf("the unit was started %d times", starts)
	}
}
