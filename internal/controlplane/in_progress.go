package controlplane

import (
	"maps"
	"slices"
	"sync"
)

// inProgress contains the operations that this process is performing or has failed to perform,
// as far as waiting operations depend on them. No operation should wait for something that no
// process will do.
type inProgress struct {
	mu sync.Mutex
	// cluster id → replica → whether its Create is in progress; false: it has failed
	creates       map[string]map[string]bool
	memberChanges map[string]int // address → changes of the etcd member there
	deletes       map[string]int // cluster id and replica → its Deletes
}

// create records that the Create of a replica has begun. done takes its result.
func (u *inProgress) create(s Spec) (done func(error)) {
	cluster, name := s.Bundle.ClusterID, s.Machine()
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.creates == nil {
		u.creates = map[string]map[string]bool{}
	}
	if u.creates[cluster] == nil {
		u.creates[cluster] = map[string]bool{}
	}
	u.creates[cluster][name] = true
	return func(err error) {
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.creates[cluster][name] = false; err == nil {
			delete(u.creates[cluster], name)
		}
	}
}

// delete records that the Delete of a replica has begun.
func (u *inProgress) delete(s Spec) (done func()) {
	id := s.Bundle.ClusterID + " " + s.Name
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.deletes == nil {
		u.deletes = map[string]int{}
	}
	u.deletes[id]++
	return sync.OnceFunc(func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.deletes[id]--
	})
}

// isDeleted reports whether a replica is being deleted.
func (u *inProgress) isDeleted(cluster, name string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.deletes[cluster+" "+name] > 0
}

// forget removes a replica that matches its configuration, or was deleted.
func (u *inProgress) forget(s Spec) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.creates[s.Bundle.ClusterID][s.Machine()] {
		delete(u.creates[s.Bundle.ClusterID], s.Machine())
	}
}

// others returns the other replicas of a control plane whose Create is in progress,
// and those whose Create has failed.
func (u *inProgress) others(s Spec) (pending, failed []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	creates := u.creates[s.Bundle.ClusterID]
	for _, other := range slices.Sorted(maps.Keys(creates)) {
		switch {
		case other == s.Machine():
		case creates[other]:
			pending = append(pending, other)
		default:
			failed = append(failed, other)
		}
	}
	return pending, failed
}

// memberChange records that a change of the etcd member on a machine is in progress.
func (u *inProgress) memberChange(address string) (done func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.memberChanges == nil {
		u.memberChanges = map[string]int{}
	}
	u.memberChanges[address]++
	return sync.OnceFunc(func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.memberChanges[address]--
	})
}

// changesMember reports whether the etcd member on a machine is being changed.
func (u *inProgress) changesMember(address string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.memberChanges[address] > 0
}
