package etcd

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// TestCollect: a bootstrap begins without a peer that stays away, and a restore waits for the member whose plan still
// reads the snapshot.
func TestCollect(t *testing.T) {
	t.Parallel()
	const window = 20 * time.Millisecond
	for want, restore := range map[int]*machine.Restore{1: nil, 2: {ID: "one"}} {
		cl := NewClusters().named("prod")
		cl.pace.BatchWindow, cl.pace.RestoreWindow = window, time.Hour
		spec := func(name string) Spec {
			return Spec{
				Spec:  machine.Spec{Name: name, Restore: restore},
				Peers: map[string]*host.Host{"cp1": nil, "cp2": nil},
			}
		}
		b := &batch{specs: map[string]Spec{"cp1": spec("cp1")}, arrived: make(chan struct{}, 1), ctx: t.Context()}
		ended := make(chan int)
		go func() {
			cl.collect(b)
			ended <- len(cl.close(b))
		}()
		if restore != nil {
			select {
			case n := <-ended:
				t.Fatalf("a restore has begun with %d of 2 members", n)
			case <-time.After(5 * window):
			}
			cl.mu.Lock()
			b.specs["cp2"] = spec("cp2")
			cl.mu.Unlock()
			b.arrived <- struct{}{}
		}
		if n := <-ended; n != want {
			t.Errorf("it begins with %d members, want %d", n, want)
		}
	}
}

// TestParticipantLeavesBatch: a member whose time is over before the bootstrap begins does not end that of the others.
func TestParticipantLeavesBatch(t *testing.T) {
	t.Parallel()
	f := newSmallFleet(t)
	specs := f.specs("cp1", "cp2")
	turn := f.clusters.of(specs["cp1"]).turns.Enter() // the batch stays open
	short := soon(t, 2*time.Second)
	context.AfterFunc(short, func() { time.AfterFunc(time.Second, turn.Leave) })
	errs := together(t, specs, func(s Spec) error {
		ctx := f.context()
		if s.Name == "cp1" {
			ctx = short
		}
		_, err := f.clusters.Create(ctx, s)
		return err
	}, "cp1", "cp2")
	if err := errs["cp1"]; !problem.Untouched(err) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("create of the member whose time is over: %v", err)
	}
	if errs["cp2"] != nil {
		t.Fatalf("create of the other one: %v", errs["cp2"])
	}
	f.wantRoster(specs["cp2"], "cp2")
}
