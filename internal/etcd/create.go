package etcd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Create creates the member. It bootstraps together with the peers that arrive within the
// rendezvous window, or joins as a learner and is promoted. It adopts what an earlier,
// interrupted call has left.
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
		// The cluster that answered can be gone when this member's turn comes, if all of
		// its members were destroyed before. In that case, decide again.
		if !errors.Is(err, client.ErrNoAnswer) || ctx.Err() != nil {
			return status, err
		}
		problem.Progress(ctx, "etcd %s: the cluster no longer answers; observing again", s.Name)
	}
}

// ErrAdopted means that Create found its member established by an earlier run or another
// resource, and failed to bring it to its spec. The member serves as before and must not
// be treated as half created. The same applies to a learner that was still catching up at
// the deadline.
var ErrAdopted = errors.New("the member existed before and is kept: the next apply adopts it again")

// creating records that the Create of a member is in progress.
func (cl *cluster) creating(name string) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	cl.creates[name] = nil
}

// created records the result of a Create. A failure is remembered, because the run
// intended to continue with the member.
func (cl *cluster) created(name string, err error) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if delete(cl.creates, name); err != nil {
		cl.creates[name] = err
	}
}

// Creating returns the names of the members that this process is creating, or has failed
// to create: the cluster is meant to continue.
func (c *Clusters) Creating(clusterID string) []string {
	pending, failed := c.named(clusterID).arrivals()
	var all []string
	for _, name := range append(pending, failed...) {
		all = append(all, fmt.Sprintf("etcd member %q", name))
	}
	return all
}

// arrivals returns the members whose Create is in progress, and those whose Create has
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
