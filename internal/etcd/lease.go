package etcd

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// LeaseName is the lease on the machines of a cluster under which etcd is founded,
// grown, shrunk and restarted. Whoever takes the replicas' lease too takes it after
// this one.
func LeaseName(clusterID string) string { return "etcd-" + clusterID }

// processLease keeps other processes from changing the same cluster. This process
// holds it from the first turn until nobody waits for one any more.
type processLease struct {
	mu     sync.Mutex // guards taking and giving back, which take time
	leases *host.Leases
}

// take makes sure of the lease. The caller has the turn.
func (p *processLease) take(ctx context.Context, cl *cluster) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var machines []host.LeaseTaker
	for _, h := range cl.hosts() {
		machines = append(machines, cl.machine(h))
	}
	return p.leases.Take(ctx, machines, host.LeaseOptions{What: "etcd of cluster " + cl.name, Optional: true})
}

// giveBack releases the lease unless somebody waits.
func (p *processLease) giveBack(idle func() bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if idle() {
		p.leases.Release()
	}
}

// fenced returns ctx for the changes of one turn.
func (cl *cluster) fenced(ctx context.Context) context.Context {
	return cl.lease.leases.Context(ctx)
}

// observeToChange is the cluster's view at the beginning of a change. Other
// processes must be kept out on the machines of a majority of the members.
func (cl *cluster) observeToChange(ctx context.Context, conv *client.Clients, s Spec) (membership.View, error) {
	v, err := conv.View(ctx, cl.addresses(s))
	if err != nil {
		return membership.View{}, err
	}
	return v, cl.exclusive(ctx, s, v)
}

// exclusive says why another process might change the cluster at the same time, or nil.
func (cl *cluster) exclusive(ctx context.Context, s Spec, v membership.View) error {
	cl.sawMember("it answers with its member list")
	err := cl.lease.leases.Restore(ctx)
	if err == nil {
		err = cl.lease.leases.Require(memberAddresses(v))
	}
	if err == nil || ctx.Err() != nil {
		return err
	}
	return &problem.Problem{
		Summary: "etcd cluster not changed", Host: s.label(), Cause: err.Error(), Err: err, Unchanged: "what is not mentioned as done above.",
		Next: "make the members' machines reachable over SSH, wait for other runs to end, then apply again", Detail: v.String(),
	}
}

// memberAddresses are those of the members' peer URLs: a member that has never
// started has no other.
func memberAddresses(v membership.View) []string {
	var all []string
	for _, m := range v.Members {
		all = append(all, m.PeerAddress())
	}
	return all
}

// note adds the machines that a spec names to those that the process knows of the
// cluster. They are never forgotten: a machine that a configuration no longer names
// may still hold a member.
func (cl *cluster) note(s Spec) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if s.Bundle != nil {
		cl.name = s.Bundle.ClusterName
	}
	for name, h := range s.Peers {
		cl.known[h.Address()] = knownMachine{name, h}
	}
	if s.Host != nil {
		cl.known[s.Host.Address()] = knownMachine{s.Name, s.Host}
	}
}

// knownMachine is a machine under the name that a resource gave it last.
type knownMachine struct {
	name string
	host *host.Host
}

// machines are all that any resource of the cluster has named in this process, by
// address.
func (cl *cluster) machines() map[string]knownMachine {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return maps.Clone(cl.known)
}

// hosts are the machines sorted by address.
func (cl *cluster) hosts() []*host.Host {
	known := cl.machines()
	var all []*host.Host
	for _, address := range slices.Sorted(maps.Keys(known)) {
		all = append(all, known[address].host)
	}
	return all
}

// hostAt is the known machine at an address, else that of s.
func (cl *cluster) hostAt(address string, s Spec) *host.Host {
	if known, ok := cl.machines()[address]; ok {
		return known.host
	}
	return s.Host
}

// addresses are those of all known machines, that of s first.
func (cl *cluster) addresses(s Spec) []string {
	all := []string{s.Host.Address()}
	for _, h := range cl.hosts() {
		if h.Address() != s.Host.Address() {
			all = append(all, h.Address())
		}
	}
	return all
}

// sawMember notes the evidence that the cluster exists: from then on this process
// founds none under the same bundle, whatever becomes of the members.
func (cl *cluster) sawMember(evidence string) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if cl.existed == "" {
		cl.existed = evidence
	}
}

// existedBecause is the evidence that sawMember noted, or "".
func (cl *cluster) existedBecause() string {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return cl.existed
}
