package etcd

import (
	"context"
	"crypto/tls"
	"sync"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// pace are the waits of the algorithms. They differ in tests only.
type pace struct {
	BatchWindow      time.Duration // after the last arrival, before a bootstrap begins without the missing peers
	Poll             time.Duration // between two looks while waiting
	ConditionTimeout time.Duration // for a refusing condition to clear by itself
	DeadAfter        time.Duration // in which a member answers nothing, however it is asked: then it is dead
	Settle           time.Duration // all healthy, between two restarts: etcd counts a member as connected after 5 s (HealthInterval)
	StallTimeout     time.Duration // in which nothing of a member moves that shall serve, or catch up: then it is stuck
	Cleanup          time.Duration // for undoing a failed join when the caller's time is over
}

var usualPace = pace{
	BatchWindow:      500 * time.Millisecond,
	Poll:             100 * time.Millisecond,
	ConditionTimeout: 20 * time.Second,
	DeadAfter:        10 * time.Second, // two election timeouts, and more than the 5 s of etcd's own
	Settle:           5 * time.Second,
	StallTimeout:     time.Minute,
	Cleanup:          30 * time.Second,
}

// Clusters coordinates the members of each cluster within this process: one
// value per provider. Its methods are safe for the parallel calls that
// Terraform makes.
type Clusters struct {
	pace    pace
	machine func(*host.Host) machine

	mu       sync.Mutex
	clusters map[string]*cluster // by the bundle's cluster id
}

// NewClusters returns an empty coordinator.
func NewClusters() *Clusters {
	return &Clusters{
		pace:     usualPace,
		machine:  func(h *host.Host) machine { return sshMachine{h} },
		clusters: map[string]*cluster{},
	}
}

// cluster is what this process knows of one cluster while it works on it.
type cluster struct {
	pace    pace
	machine func(*host.Host) machine
	turns   turns
	lease   processLease
	ids     clusterIDs

	mu           sync.Mutex
	name         string                  // for messages
	known        map[string]knownMachine // by address
	evidence     string                  // the evidence that the cluster exists; "" while there is none
	creates      map[string]error        // members whose Create is under way (nil) or has failed
	openBatch    *batch                  // nil: the next arrival opens one
	leaving      map[string]int          // members whose Delete is under way
	coming       map[string]int          // peer URLs of members whose Create is under way
	restarted    time.Time               // when this process last saw a member back after restarting it
	upgrades     upgrades                // of this process
	waitedInVain time.Time               // when a wait for leave to restart a member last ended in vain
	tls          *tls.Config             // client certificate, issued once
	madeOf       string                  // what tls was made of
	issued       time.Time               // of tls
}

// of returns the cluster that a spec belongs to, which knows its machines from then on.
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
			pace: c.pace, machine: c.machine, leaving: map[string]int{}, known: map[string]knownMachine{}, creates: map[string]error{},
			lease: processLease{leases: host.NewLeases(LeaseName(clusterID))},
		}
		cl.turns.acquired = func(ctx context.Context) error { return cl.lease.take(ctx, cl) }
		cl.turns.idle = func() { cl.lease.giveBack(cl.turns.empty) }
		c.clusters[clusterID] = cl
	}
	return cl
}

// refusal is the problem for a change that the rules do not allow now.
func refusal(summary string, s Spec, v *membership.View, cause, unchanged, next string) error {
	p := &problem.Problem{Summary: summary, Host: s.label(), Cause: cause, Unchanged: unchanged, Next: next}
	if v != nil {
		p.Detail = v.String()
	}
	return p
}
