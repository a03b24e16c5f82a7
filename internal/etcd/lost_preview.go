package etcd

import (
	"context"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
)

// lostAnswer limits the time of each machine to answer for a plan.
const lostAnswer = machine.SnapshotLimit

// noteLost records whether a Read has found data of the cluster on a machine, and no member that answers.
func (cl *cluster) noteLost(lost bool) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	cl.lost = lost
}

// Lost reports whether the last Read of a member that could tell has found data of the cluster, and no member that
// answers. It asks nobody. Machines that do not answer cannot tell.
func (c *Clusters) Lost(clusterID string) bool {
	cl := c.named(clusterID)
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return cl.lost
}

// PreviewLost describes, for a plan without a restore, what the members of a cluster have that does not answer, and
// what can be done; "" if it answers, or no machine that answers has data. It changes nothing, and starts no member.
func (c *Clusters) PreviewLost(ctx context.Context, s Spec) string {
	planned := &Clusters{pace: c.pace, machine: c.machine, clusters: map[string]*cluster{}}
	planned.pace.Answer = min(c.pace.Answer, lostAnswer)
	cl := planned.of(s)
	cl.leaderless = c.named(s.Bundle.ClusterID).leaderless
	o := cl.observeCluster(ctx, s)
	if who, _ := cl.serves(ctx, o); who != "" {
		return ""
	}
	survivors := cl.positions(ctx, s, o)
	if len(survivors) == 0 {
		return ""
	}
	return "No member answers with a quorum. An apply starts members that are stopped and part of it. If they get no " +
		"quorum, it changes nothing more and fails. These members have data:\n" + survivorTable(survivors) +
		"What to do: " + lostNext(survivors, s.Spec) + "."
}
