package etcd

import (
	"context"
	"crypto/tls"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/wait"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// pace contains the waiting times of the algorithms. Only tests change them.
type pace struct {
	BatchWindow      time.Duration // after the last arrival, before a bootstrap begins without the missing peers
	RestoreWindow    time.Duration // the same before a restore: the plan of one member reads the snapshot first
	Poll             time.Duration // between two observations while waiting
	ConditionTimeout time.Duration // for a blocking condition to clear by itself
	DeadAfter        time.Duration // without any answer, on any route, before a member counts as dead
	// all healthy, between two restarts: etcd counts a member as connected after 5 s (HealthInterval)
	Settle       time.Duration
	StallTimeout time.Duration // without progress before a member that starts or catches up counts as stuck
	Cleanup      time.Duration // for undoing a failed join when the caller's deadline has passed
	Answer       time.Duration // for a machine to answer one observation among others, at most
}

var usualPace = pace{
	BatchWindow:      500 * time.Millisecond,
	RestoreWindow:    3 * machine.SnapshotLimit,
	Poll:             100 * time.Millisecond,
	ConditionTimeout: 20 * time.Second,
	DeadAfter:        10 * time.Second, // two election timeouts, and more than the 5 s of etcd itself
	Settle:           5 * time.Second,
	StallTimeout:     time.Minute,
	Cleanup:          30 * time.Second,
	Answer:           time.Minute,
}

// Clusters coordinates the members of each cluster within this process. A provider has one
// value. Its methods are safe for Terraform's parallel calls.
type Clusters struct {
	pace    pace
	machine func(*host.Host) machine.Machine

	mu       sync.Mutex
	clusters map[string]*cluster // by the bundle's cluster ID
}

// NewClusters returns a coordinator without clusters.
func NewClusters() *Clusters {
	return &Clusters{
		pace:     usualPace,
		machine:  func(h *host.Host) machine.Machine { return machine.SSH{Host: h} },
		clusters: map[string]*cluster{},
	}
}

// cluster is what this process knows of one cluster while it works on it.
type cluster struct {
	pace    pace
	machine func(*host.Host) machine.Machine
	turns   wait.Queue
	lease   processLease
	ids     clusterIDs

	leaderless *client.Leaderless

	mu              sync.Mutex
	name            string                  // for messages
	known           map[string]knownMachine // by address
	evidence        string                  // the evidence that the cluster exists; "" if there is none
	lost            bool                    // see noteLost
	unnamed         map[string]string       // see noteUnnamed
	creates         map[string]error        // members whose Create is in progress (nil) or has failed
	awaits          map[string]string       // see await
	openBatch       *batch                  // nil: the next arrival opens one
	leaving         map[string]int          // members whose Delete is in progress
	joining         map[string]int          // peer URLs of members whose Create is in progress
	restarted       time.Time               // when this process last observed a member serving after restarting it
	upgrades        upgrades                // of this process
	unstarted       string                  // the member that did not serve after a change of its definition
	saved           map[string]time.Time    // snapshots before a change between one and two voters, by label
	restored        doneRestore             // until the restored cluster has grown
	lastWaitTimeout time.Time               // when waiting for permission to restart a member last timed out
	tls             *tls.Config             // with the client certificate, which it renews
	madeOf          string                  // the inputs that tls was made of
}

// of returns the cluster that a spec belongs to, and records the spec's machines in it.
func (c *Clusters) of(s Spec) *cluster {
	cl := c.named(s.Bundle.ClusterID)
	cl.note(s)
	return cl
}

func (c *Clusters) named(clusterID string) *cluster {
	c.mu.Lock()
	defer c.mu.Unlock()
	cl, ok := c.clusters[clusterID]
	if !ok {
		cl = &cluster{
			pace: c.pace, machine: c.machine, leaving: map[string]int{}, known: map[string]knownMachine{},
			unnamed: map[string]string{}, creates: map[string]error{}, leaderless: &client.Leaderless{},
			lease: processLease{leases: host.NewLeases(LeaseName(clusterID))},
		}
		cl.turns.Acquired = func(ctx context.Context) error { return cl.lease.take(ctx, cl) }
		cl.turns.Idle = func() { cl.lease.giveBack(cl.turns.Empty) }
		c.clusters[clusterID] = cl
	}
	return cl
}

// refusal returns the problem for a change that the rules do not allow now.
func refusal(summary string, s Spec, v *membership.View, cause, unchanged, next string) error {
	return refusedBy(nil, summary, s, v, cause, unchanged, next)
}

// refusedBy is refusal for a change that an error prevents. The cause describes it.
func refusedBy(err error, summary string, s Spec, v *membership.View, cause, unchanged, next string) error {
	p := &problem.Problem{Summary: summary, Host: s.Label(), Cause: cause, Err: err, Unchanged: unchanged, Next: next}
	if v != nil {
		p.Detail = v.String()
	}
	return p
}

// nextUnlessEnded returns next, or again if the operation was cancelled or its time is over: that is the cause then.
func nextUnlessEnded(ctx context.Context, next, again string) string {
	if ctx.Err() != nil {
		return again
	}
	return next
}

// note adds the machines in a spec to those that this process knows of the cluster. They
// are never forgotten: a machine that a configuration no longer contains may still have a
// member.
func (cl *cluster) note(s Spec) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if s.Bundle != nil {
		cl.name = s.Bundle.ClusterName
	}
	for name, h := range s.Peers {
		cl.known[h.Address()] = knownMachine{name, h, cl.known[h.Address()].dataDir}
	}
	if s.Former != nil {
		cl.known[s.Former.Address()] = knownMachine{s.Name, s.Former, s.Directory()}
	}
	if s.Host != nil {
		cl.known[s.Host.Address()] = knownMachine{s.Name, s.Host, s.Directory()}
	}
}

// displayName returns the name of the cluster for messages.
func (cl *cluster) displayName() string {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return cl.name
}

// knownMachine is a machine with the name that a resource gave it last, and the data directory of a resource whose
// member is there; "" if there is none.
type knownMachine struct {
	name    string
	host    *host.Host
	dataDir string
}

// machines returns all machines that any resource of the cluster has named in this
// process, by address.
func (cl *cluster) machines() map[string]knownMachine {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return maps.Clone(cl.known)
}

// hosts returns the machines sorted by address.
func (cl *cluster) hosts() []*host.Host {
	known := cl.machines()
	var all []*host.Host
	for _, address := range slices.Sorted(maps.Keys(known)) {
		all = append(all, known[address].host)
	}
	return all
}

// hostAt returns the known machine at an address, else that of s.
func (cl *cluster) hostAt(address string, s Spec) *host.Host {
	if known, ok := cl.machines()[address]; ok {
		return known.host
	}
	return s.Host
}

// addresses returns those of all known machines, that of s first.
func (cl *cluster) addresses(s Spec) []string {
	all := []string{s.Host.Address()}
	for _, h := range cl.hosts() {
		if h.Address() != s.Host.Address() {
			all = append(all, h.Address())
		}
	}
	return all
}

// hostAddresses returns the addresses of hosts, sorted by the name of the host.
func hostAddresses(hosts map[string]*host.Host) []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		all = append(all, hosts[name].Address())
	}
	return all
}

// connect opens connections to the cluster of s. A member is dialled through SSH to its
// own machine. If that machine cannot be reached, or is not a known machine, the member is
// dialled through one of the others.
func (cl *cluster) connect(s Spec) (*client.Clients, error) {
	return cl.connectThrough(s.Bundle, cl.hosts())
}

func (cl *cluster) connectThrough(b *pki.Bundle, hosts []*host.Host) (*client.Clients, error) {
	return cl.connectBy(b, hosts, machine.DialThrough)
}

func (cl *cluster) connectBy(b *pki.Bundle, hosts []*host.Host, by machine.Dialer) (*client.Clients, error) {
	config, err := cl.clientTLS(b)
	if err != nil {
		return nil, err
	}
	routes := map[string]machine.Machine{}
	for _, h := range hosts {
		routes[h.Address()] = cl.machine(h)
	}
	clients := client.New(config, func(ctx context.Context, addr string) (net.Conn, error) {
		return by(ctx, routes, addr)
	})
	clients.Leaderless = cl.leaderless
	if len(hosts) > 0 {
		clients.Around = hosts[0].AroundRequest
	}
	return clients, nil
}

func (cl *cluster) clientTLS(b *pki.Bundle) (*tls.Config, error) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	// A rotation changes the trusted CAs and the signing CA one after the other. An
	// externally signed certificate may change at any time.
	madeOf := b.Known(pki.Etcd) + b.Signing(pki.Etcd) + b.Signed[client.CertificateOf(b).Name].Certificate
	if cl.tls != nil && cl.madeOf == madeOf {
		return cl.tls, nil
	}
	config, err := client.TLS(b, time.Now)
	if err != nil {
		return nil, err
	}
	cl.tls, cl.madeOf = config, madeOf
	return config, nil
}
