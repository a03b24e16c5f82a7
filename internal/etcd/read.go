package etcd

import (
	"context"
	"fmt"
	"sync"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Read observes the member in one round trip and queries the cluster about it. It returns
// ErrGone if the member is gone, and host.ErrUnreachable if its host cannot be reached
// (the caller then keeps its state).
func (c *Clusters) Read(ctx context.Context, s Spec) (Status, error) {
	cl := c.of(s)
	clients, err := cl.connect(s)
	if err != nil {
		return Status{}, err
	}
	defer clients.Close()
	var f machine.Observed
	var v *membership.View
	var ids map[string]uint64
	var group sync.WaitGroup
	group.Go(func() { f = cl.observe(ctx, s, s.Name, s.Host) })
	var asked error
	group.Go(func() { v, asked = cl.viewOf(ctx, s) })
	group.Go(func() { ids = cl.served(ctx, clients, s) })
	group.Wait()
	if asked != nil {
		return Status{}, asked
	}
	if v != nil || f.HasMember() {
		cl.noteExists("a read of member " + s.Name)
	}
	if isGone(s, f, v) {
		return Status{}, goneProblem(s, v)
	}
	if !f.Reached() {
		return Status{}, fmt.Errorf("observe %s: %w", s.Label(), f.Err)
	}
	status := describe(s, f, v)
	status.Drift = append(status.Drift, clusterDrift(s, f, v, ids)...)
	return cl.withUnmanaged(s, status, nil)
}

// clusterDrift reports that the member, or another one of the bundle, belongs to another
// etcd cluster than it should.
func clusterDrift(s Spec, f machine.Observed, v *membership.View, ids map[string]uint64) []string {
	var words []string
	if cause := membership.DescribeSplit(ids); cause != "" {
		words = append(words, s.Name+": "+cause)
	}
	if v != nil && f.OfEarlierCluster(v.ClusterID) != "" {
		words = append(words, s.Name+": "+f.OfEarlierCluster(v.ClusterID))
	}
	return words
}

// isGone requires positive evidence: the machine answers, nothing of the member is on it,
// and no member list backed by a quorum contains the member. If the machine still has
// something of a removed member, the member is not gone: its removal was interrupted, or
// done by hand, and either a Delete has to clean the machine or an Update has to join the
// member again. If the machine cannot be observed, the member is not gone either:
// abandoning it is the user's decision.
func isGone(s Spec, f machine.Observed, v *membership.View) bool {
	if !f.Reached() {
		return false
	}
	return v != nil && machine.EntryOf(v, s.Spec) == nil && !f.Holds(s.Spec) || v == nil && f.Empty()
}

// goneProblem returns ErrGone with the evidence. The next plan shows it together with the
// new member.
func goneProblem(s Spec, v *membership.View) error {
	cause := "it is not in the cluster's member list"
	if v == nil {
		cause = "the machine answers and has nothing of the member, and no other member lists it"
	}
	return &problem.Problem{
		Summary: fmt.Sprintf("etcd member %q is gone", s.Name), Host: s.Label(), Cause: cause, Err: ErrGone,
		Next: "apply to create it again; if it is no longer needed, remove it from the configuration",
	}
}
