package etcd

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// LeaseName returns the name of the lease on the machines of a cluster for bootstrapping,
// growing, shrinking and restarting etcd. A process that also takes the replicas' lease
// takes it after this one.
func LeaseName(clusterID string) string { return "etcd-" + clusterID }

// processLease keeps other processes from changing the same cluster. This process has the
// lease from its first turn until no caller waits for a turn any more.
type processLease struct {
	mu     sync.Mutex // serializes take and giveBack, which take time
	leases *host.Leases
}

// take acquires or confirms the lease. The caller has the turn.
func (p *processLease) take(ctx context.Context, cl *cluster) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var machines []host.LeaseTaker
	for _, h := range cl.hosts() {
		machines = append(machines, cl.machine(h))
	}
	return p.leases.Take(ctx, machines, host.LeaseOptions{What: "etcd of cluster " + cl.displayName(), Optional: true})
}

// giveBack releases the lease unless a caller waits for a turn.
func (p *processLease) giveBack(idle func() bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if idle() {
		p.leases.Release()
	}
}

// withLease returns ctx with the lease, for the changes of one turn.
func (cl *cluster) withLease(ctx context.Context) context.Context {
	return cl.lease.leases.Context(ctx)
}

// noteExists records the evidence that the cluster exists. From then on this process does
// not bootstrap another one under the same bundle, even if all members go away.
func (cl *cluster) noteExists(evidence string) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if cl.evidence == "" {
		cl.evidence = evidence
	}
}

// existsBecause returns the evidence that noteExists recorded, or "".
func (cl *cluster) existsBecause() string {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return cl.evidence
}

// observeToChange returns the cluster's view at the beginning of a change. It requires the
// lease on the machines of a majority of the voters, to exclude other processes.
func (cl *cluster) observeToChange(ctx context.Context, clients *client.Clients, s Spec) (membership.View, error) {
	v, err := clients.View(ctx, cl.addresses(s))
	if err != nil {
		return membership.View{}, err
	}
	return v, cl.requireLease(ctx, s, v)
}

// requireLease returns an error if another process might change the cluster at the same
// time.
func (cl *cluster) requireLease(ctx context.Context, s Spec, v membership.View) error {
	cl.noteExists("an answer with its member list")
	err := cl.lease.leases.Restore(ctx)
	if err == nil {
		err = cl.lease.leases.Require(s.leaseAddresses(v))
	}
	if err == nil || ctx.Err() != nil {
		return err
	}
	next := "make the voters' machines reachable over SSH, wait until other runs have ended, then apply again"
	if unknown := cl.unknownVoters(s, v); len(unknown) > 0 {
		next = "if these voters belong to the cluster, add them to peers, which is how their machines are known: " +
			strings.Join(unknown, ", ") + ". Then " + next
	}
	return &problem.Problem{
		Summary: "etcd cluster not changed", Host: s.Label(), Cause: err.Error(), Err: err,
		Unchanged: "everything that is not reported as done above.",
		Next:      next,
		Detail:    v.String(),
	}
}

// unknownVoters describes the voters on whose machines no lease can be taken, because neither the peers of s nor those
// of another member of this process have them: a member that was imported while the cluster did not list its members
// has itself as its only peer.
func (cl *cluster) unknownVoters(s Spec, v membership.View) []string {
	known := cl.machines()
	var out []string
	for _, m := range v.Voters() {
		if _, ok := known[s.leaseAddress(m)]; !ok {
			out = append(out, fmt.Sprintf("%q at %q", m.Name, m.PeerAddress()))
		}
	}
	return out
}

// leaseAddresses returns the machines on which a change needs the lease: those of the voters. A learner decides
// nothing, and if its machine is gone, the change may be its removal. A change of the members adds or removes one voter
// at most, so a majority from before it and one from after it have a machine in common. The address is that of the peer
// URL, because a member that has never started has no other one. A member that has moved with its volume is on its
// new machine, also before the cluster lists it there.
func (s Spec) leaseAddresses(v membership.View) []string {
	var all []string
	for _, m := range v.Voters() {
		all = append(all, s.leaseAddress(m))
	}
	return all
}

func (s Spec) leaseAddress(m membership.Member) string {
	if s.Volume != nil && m.Name == s.Name {
		return s.Host.Address()
	}
	return m.PeerAddress()
}
