package etcd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Create makes the member exist: bootstraps together with the peers that
// arrive within the rendezvous window, or joins as a learner and is promoted.
// It adopts what an earlier call that was cut off has left.
func (c *Clusters) Create(ctx context.Context, s Spec) (Status, error) {
	cl := c.of(s)
	cl.countJoining(s.PeerURL(), +1)
	defer cl.countJoining(s.PeerURL(), -1)
	cl.creating(s.Name)
	status, err := cl.create(ctx, s)
	cl.created(s.Name, err)
	return status, err
}

func (cl *cluster) create(ctx context.Context, s Spec) (Status, error) {
	for {
		o := cl.enterBatch(ctx, s)
		if !o.join && o.err != nil {
			return o.status, o.err
		}
		if !o.join {
			return o.status, s.outageEnded(ctx)
		}
		status, err := cl.join(ctx, s)
		if err == nil {
			return status, s.outageEnded(ctx)
		}
		// The cluster that answered can be gone by the time it is this member's
		// turn, when all of its members were destroyed before. Then decide anew.
		if !errors.Is(err, client.ErrNoAnswer) || ctx.Err() != nil {
			return status, err
		}
		problem.Progress(ctx, "etcd %s: the cluster no longer answers; looking again", s.Name)
	}
}

// ErrAdopted: Create has found its member established, as an earlier run or another
// resource has left it, and failed to bring it to its spec. It serves as it did before,
// and must not be taken for one that is half made. Nor must a learner that was still
// catching up when the time was over.
var ErrAdopted = errors.New("the member was there before and stays: the next apply adopts it again")

// creating notes that a member is on its way into the cluster.
func (cl *cluster) creating(name string) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	cl.creates[name] = nil
}

// created notes what became of it. One that failed is remembered: the run meant to
// go on with it.
func (cl *cluster) created(name string, err error) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if delete(cl.creates, name); err != nil {
		cl.creates[name] = err
	}
}

// Creating names the members of a cluster that this process is making, or has failed
// to make: the cluster is meant to go on.
func (c *Clusters) Creating(clusterID string) []string {
	pending, failed := c.named(clusterID).arrivals()
	var all []string
	for _, name := range append(pending, failed...) {
		all = append(all, fmt.Sprintf("etcd member %q", name))
	}
	return all
}

// arrivals are the members whose Create is under way, and those whose Create has
// failed in this process.
func (cl *cluster) arrivals() (pending, failed []string) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(cl.creates)) {
		if cl.creates[name] == nil {
			pending = append(pending, name)
		} else {
			failed = append(failed, name)
		}
	}
	return pending, failed
}

// archiveData stops the unit and archives the data, never wipes it.
func (cl *cluster) archiveData(ctx context.Context, s Spec) error {
	if _, err := cl.machine(s.Host).Change(ctx, host.Change{}, s.archiveAction(doRetire, true)); err != nil {
		return fmt.Errorf("archive data of %s: %w", s.label(), err)
	}
	return nil
}

func (cl *cluster) install(ctx context.Context, s Spec, f observed) error {
	if len(missingArtifacts(s, f)) == 0 {
		return nil
	}
	problem.Progress(ctx, "etcd %s: installing etcd %s", s.Name, s.Version)
	if _, err := cl.machine(s.Host).Install(ctx, s.Source, artifacts(s.Version)); err != nil {
		return &problem.Problem{
			Summary: "etcd not installed", Host: s.label(), Cause: err.Error(), Err: err,
			Unchanged: "no etcd was started, stopped or changed.", Next: "check the artifact source of the provider and the version",
		}
	}
	return nil
}
