package etcd

import (
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
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
