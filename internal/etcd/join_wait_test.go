package etcd

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// TestJoinWaits: each condition has the whole waiting time, and no more.
func TestJoinWaits(t *testing.T) {
	const limit = 200 * time.Millisecond
	begin := func(t *testing.T) *joining {
		cl, specs, _ := reimagedCluster(t)
		j := &joining{cl: cl, s: specs["cp1"], turn: cl.turns.Enter()}
		if err := j.turn.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		return j
	}
	noAnswer := func(t *testing.T, j *joining) error {
		return j.waitOrRefuse(t.Context(), nil, limit, client.ErrNoAnswer)
	}
	catchUp := func(t *testing.T, j *joining) {
		if err := j.wait(t.Context(), membership.View{Members: []membership.Member{{ID: 1, Learner: true}}}, 1); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("a condition that has cleared", func(t *testing.T) {
		j := begin(t)
		if err := noAnswer(t, j); err != nil {
			t.Fatal(err)
		}
		catchUp(t, j)
		time.Sleep(2 * limit)
		catchUp(t, j)
		if err := noAnswer(t, j); err != nil {
			t.Errorf("refused at once: %v", err)
		}
	})
	t.Run("programs were installed", func(t *testing.T) {
		j := begin(t)
		if err := noAnswer(t, j); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * limit)
		if err := j.install(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := noAnswer(t, j); err != nil {
			t.Errorf("refused at once: %v", err)
		}
	})
	t.Run("a condition that stays", func(t *testing.T) {
		j := begin(t)
		catchUp(t, j)
		var err error
		for begun := time.Now(); err == nil && time.Since(begun) < 20*limit; {
			err = noAnswer(t, j)
		}
		if !errors.Is(err, client.ErrNoAnswer) {
			t.Errorf("not refused: %v", err)
		}
	})
}

// TestDataDeletedWhileItServes: the data directory of a serving member was deleted. No wait helps, so the error comes
// at once.
func TestDataDeletedWhileItServes(t *testing.T) {
	t.Parallel()
	f := newSmallFleet(t)
	specs := f.specs("cp1", "cp2")
	f.create(specs, "cp1", "cp2")
	if err := os.RemoveAll(f.machine("cp2").at(layout.DefaultDataDir) + "/member"); err != nil {
		t.Fatal(err)
	}
	c := f.coordinator()
	begun := time.Now()
	_, err := c.Update(f.context(), specs["cp2"])
	if err == nil || !strings.Contains(err.Error(), "has no data of it") || !strings.Contains(err.Error(), "-replace") ||
		!problem.Untouched(err) {
		t.Errorf("updated: %v", err)
	}
	if lasted := time.Since(begun); lasted > c.pace.StallTimeout/2 {
		t.Errorf("refused after %s", lasted)
	}
}

// early is a machine whose first observations come before etcd has made its data directory.
type early struct {
	*testMachine
	left *atomic.Int32
}

func (m early) Observe(ctx context.Context, q host.Query) (host.Facts, error) {
	facts, err := m.testMachine.Observe(ctx, q)
	if m.left.Add(-1) >= 0 {
		facts.Dirs = nil
	}
	return facts, err
}

// TestDataOfAStartedMember: a join that was cut off goes on although the machine was observed before the member that it
// has started had data.
func TestDataOfAStartedMember(t *testing.T) {
	t.Parallel()
	f := newSmallFleet(t)
	specs := f.specs("cp1", "cp2")
	f.create(specs, "cp1", "cp2")
	m := f.machine("cp2")
	m.mu.Lock()
	m.files[layout.EnvPath] = host.File{Path: layout.EnvPath, Content: []byte("ETCD_INITIAL_CLUSTER_STATE=existing\n")}
	m.mu.Unlock()
	c := f.coordinator()
	var left atomic.Int32
	left.Store(4)
	c.machine = func(h *host.Host) machine.Machine {
		if h.Address() == m.address {
			return early{m, &left}
		}
		return f.machines[h.Address()]
	}
	if status, err := c.Update(f.context(), specs["cp2"]); err != nil || !status.Healthy || f.exists(m, layout.EnvPath) {
		t.Errorf("%+v, %v", status, err)
	}
}

func (f *fleet) exists(m *testMachine, path string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, there := m.files[path]
	return there
}
