package etcd

import (
	"errors"
	"sync"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
)

// TestRestoreOneAtATime restores as Terraform does with -parallelism=1: no other member arrives before the first is
// done, whichever that is. Every machine can get the snapshot, as from a bucket.
func TestRestoreOneAtATime(t *testing.T) {
	t.Parallel()
	f := newLostFleet(t)
	f.put("/registry/pods/a", "saved")
	for _, name := range trio {
		f.save(name)
	}
	f.empty(trio...)
	f.request(machine.Restore{ID: "one", Snapshot: f.snapshot})
	f.clusters = f.coordinator()
	for _, name := range []string{"cp2", "cp3", "cp1"} {
		if status, err := f.clusters.Update(f.context(), f.specs[name]); err != nil || !status.Healthy || status.Learner {
			t.Fatalf("%s: %+v, %v", name, status, err)
		}
	}
	f.serves("restored", "saved")
}

// TestRestoreByTwoProcesses restores by two applies at once. One of them does it, and the other one finds it done.
func TestRestoreByTwoProcesses(t *testing.T) {
	t.Parallel()
	f := newLostFleet(t)
	f.empty(trio...)
	f.request(machine.Restore{ID: "one", Snapshot: f.snapshot})
	one, other := f.coordinator(), f.coordinator()
	var both sync.WaitGroup
	for _, c := range []*Clusters{one, other} {
		both.Go(func() {
			for name, err := range f.update(c) {
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
	both.Wait()
	f.clusters = f.coordinator()
	f.serves("restored", "saved")
	ids := map[string]bool{}
	for _, name := range trio {
		ids[f.record(name).EtcdCluster] = true
	}
	if len(ids) != 1 {
		t.Errorf("the members are of the clusters %v", ids)
	}
}

// TestTwoRestoresAtOnce: two applies with different restores. One is done, and the other one is refused, because the
// cluster serves by then.
func TestTwoRestoresAtOnce(t *testing.T) {
	t.Parallel()
	f := newLostFleet(t)
	f.empty(trio...)
	var both sync.WaitGroup
	errs := make([]error, 2)
	for i, id := range []string{"one", "two"} {
		s := f.specs["cp1"]
		s.Restore = &machine.Restore{ID: id, Snapshot: f.snapshot, Bump: machine.BumpAutomatically}
		s.StopReplica = f.stopReplica
		c := f.coordinator()
		both.Go(func() { _, errs[i] = c.Update(f.context(), s) })
	}
	both.Wait()
	if (errs[0] == nil) == (errs[1] == nil) {
		t.Errorf("want one of the restores to be done: %v", errors.Join(errs...))
	}
	if record := f.record("cp1"); record.Restored != map[bool]string{true: "one", false: "two"}[errs[0] == nil] {
		t.Errorf("cp1 records %+v, after %v", record, errs)
	}
}
