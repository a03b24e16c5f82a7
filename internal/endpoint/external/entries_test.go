package external

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
)

// TestAwaitEntries: a replica leaves only when the balancer had the time to notice that the others are ready, since
// this process has seen it or has registered them. The hook status makes that needless.
func TestAwaitEntries(t *testing.T) {
	const entry = 10 * time.Second
	replica := targets.Replica{Name: "x"}
	ready, down := targets.Target{Replica: replica}, targets.Target{Replica: replica, NotReady: errors.New("down")}
	all := targets.Observed{"cp1": ready, "cp2": ready, "cp3": down}
	for name, c := range map[string]struct {
		change func(r *Registrar)
		leaver string
		want   time.Duration
	}{
		"seen just now":          {func(*Registrar) {}, "cp1", entry},
		"seen before":            {func(*Registrar) { time.Sleep(4 * time.Second) }, "cp1", 6 * time.Second},
		"seen long before":       {func(*Registrar) { time.Sleep(entry) }, "cp1", 0},
		"registered by this run": {func(r *Registrar) { r.entries.set(r.entry(), "cp2", time.Now().Add(-entry)) }, "cp1", 0},
		"restarted meanwhile": {func(r *Registrar) {
			time.Sleep(entry)
			r.entries.set(r.entry(), "cp2", time.Time{})
			r.entries.observed(r.entry(), all)
		}, "cp1", entry},
		"failed meanwhile": {func(r *Registrar) {
			time.Sleep(entry)
			r.entries.observed(r.entry(), targets.Observed{"cp2": down})
			r.entries.observed(r.entry(), all)
		}, "cp1", entry},
		"the balancer of another cluster, too, and that has noticed": {func(r *Registrar) {
			own := r.ClusterID
			r.ClusterID = "another"
			r.entries.set(r.entry(), "cp2", time.Now().Add(-entry))
			r.ClusterID = own
		}, "cp1", entry},
		"the leaver is down":     {func(*Registrar) {}, "cp3", 0},
		"there is a hook status": {func(r *Registrar) { r.Hooks.Status = []string{"/bin/true"} }, "cp1", 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := New(targets.NewObserver(nowhere, nil)).For(endpoint.Registration{
				Kind: endpoint.External, Address: "api.example.com", HealthyTime: entry, DetectionTime: time.Second,
			})
			r.entries.observed(r.entry(), all)
			c.change(r)
			began := time.Now()
			waited, err := r.awaitEntries(t.Context(), c.leaver, all)
			if took := time.Since(began); err != nil || took != c.want || waited != (c.want > 0) {
				t.Errorf("%s: waited %t for %s, want %s: %v", name, waited, took, c.want, err)
			}
			if again, err := r.awaitEntries(t.Context(), c.leaver, all); again || err != nil {
				t.Errorf("%s: it waits again: %v", name, err)
			}
		})
	}
}
