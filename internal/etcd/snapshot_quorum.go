package etcd

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
)

// A cluster that grows from one voter to two, or shrinks from two to one, has no tolerance for
// failures on its way: if either member fails, quorum is lost. A snapshot is saved first.
const (
	growthLabel    = "before-2-members"
	shrinkageLabel = "before-1-member"
)

// snapshotLasts is how long a snapshot counts as the one from before a change: the change is retried
// meanwhile.
const snapshotLasts = time.Minute

// doneRestore is a restore that this process has completed.
type doneRestore struct {
	cluster uint64 // etcd's ID of the restored cluster; 0: none
	at      time.Time
}

// growthNeedsSnapshot is the rule by which a snapshot is saved before the cluster with this ID grows. The source of a
// restore that was completed just before is that snapshot: it is untouched, and no older than a snapshot may be.
func growthNeedsSnapshot(voters int, cluster uint64, done doneRestore, now time.Time) bool {
	return voters == 1 && (done.cluster == 0 || done.cluster != cluster || now.Sub(done.at) >= snapshotLasts)
}

// noteRestored remembers a restore until the restored cluster has grown.
func (cl *cluster) noteRestored(cluster uint64) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	cl.restored = doneRestore{cluster: cluster, at: time.Now()}
}

// sizeChanged forgets the restore: what a later change of the cluster's size could lose is not in its source.
func (cl *cluster) sizeChanged() {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	cl.restored = doneRestore{}
}

// savedBeforeGrowth reports whether the cluster may grow: it has several voters, a snapshot was just saved, or it was
// just restored. After saving one it returns false, because time has passed.
func (cl *cluster) savedBeforeGrowth(ctx context.Context, s Spec, v membership.View) (bool, error) {
	if len(v.Voters()) != 1 {
		cl.sizeChanged()
		return true, nil
	}
	cl.mu.Lock()
	needed := growthNeedsSnapshot(len(v.Voters()), v.ClusterID, cl.restored, time.Now())
	cl.mu.Unlock()
	if !needed {
		return true, nil
	}
	return cl.savedBefore(ctx, s, v.Voters(), growthLabel)
}

// savedBeforeShrinkage reports the same of the removal of a voter. If all voters leave in this run, and may,
// the last one saves the final snapshot.
func (cl *cluster) savedBeforeShrinkage(
	ctx context.Context, s Spec, v membership.View, leaves membership.Member,
) (bool, error) {
	cl.sizeChanged()
	leaving := cl.leavingMembers()
	stays := func(m membership.Member) bool { return !leaving[m.Name] || s.Bundle.DeletionProtected() }
	if leaves.Learner || len(v.Voters()) != 2 || !slices.ContainsFunc(v.Voters(), stays) {
		return true, nil
	}
	return cl.savedBefore(ctx, s, membership.Except(v.Voters(), leaves.ID), shrinkageLabel)
}

func (cl *cluster) savedBefore(
	ctx context.Context, s Spec, on []membership.Member, label string,
) (bool, error) {
	cl.mu.Lock()
	recent := time.Since(cl.saved[label]) < snapshotLasts
	cl.mu.Unlock()
	if recent {
		return true, nil
	}
	_, err := cl.save(ctx, saving{
		machine: cl.machine(cl.hostAt(on[0].Address(), s)), cluster: s.Bundle.ClusterID, member: on[0], label: label,
		dir: snapshot.RequestedDir,
	})
	if err != nil {
		return false, fmt.Errorf("no snapshot could be saved before the cluster, which tolerates no failure while it "+
			"changes between one and two voters: %w", err)
	}
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if cl.saved == nil {
		cl.saved = map[string]time.Time{}
	}
	cl.saved[label] = time.Now()
	return false, nil
}
