package etcd

import (
	"context"
	"sync"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
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

// withLease returns ctx for the changes of one turn.
func (cl *cluster) withLease(ctx context.Context) context.Context {
	return cl.lease.leases.Context(ctx)
}

// noteExists notes the evidence that the cluster exists: from then on this process
// founds none under the same bundle, whatever becomes of the members.
func (cl *cluster) noteExists(evidence string) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if cl.evidence == "" {
		cl.evidence = evidence
	}
}

// existsBecause is the evidence that sawMember noted, or "".
func (cl *cluster) existsBecause() string {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return cl.evidence
}
