package etcd

import (
	"context"
	"crypto/tls"
	"sync"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/wait"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// pace contains the waiting times of the algorithms. Only tests change them.
type pace struct {
	BatchWindow      time.Duration // after the last arrival, before a bootstrap begins without the missing peers
	Poll             time.Duration // between two observations while waiting
	ConditionTimeout time.Duration // for a blocking condition to clear by itself
	DeadAfter        time.Duration // without any answer, on any route, before a member counts as dead
	Settle           time.Duration // all healthy, between two restarts: etcd counts a member as connected after 5 s (HealthInterval)
	StallTimeout     time.Duration // without progress before a member that starts or catches up counts as stuck
	Cleanup          time.Duration // for undoing a failed join when the caller's deadline has passed
}

var usualPace = pace{
	BatchWindow:      500 * time.Millisecond,
	Poll:             100 * time.Millisecond,
	ConditionTimeout: 20 * time.Second,
	DeadAfter:        10 * time.Second, // two election timeouts, and more than the 5 s of etcd itself
	Settle:           5 * time.Second,
	StallTimeout:     time.Minute,
	Cleanup:          30 * time.Second,
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

	mu           sync.Mutex
	name         string                  // for messages
	known        map[string]knownMachine // by address
	evidence     string                  // the evidence that the cluster exists; "" if there is none
	creates      map[string]error        // members whose Create is in progress (nil) or has failed
	openBatch    *batch                  // nil: the next arrival opens one
	leaving      map[string]int          // members whose Delete is in progress
	coming       map[string]int          // peer URLs of members whose Create is in progress
	restarted    time.Time               // when this process last observed a member serving after restarting it
	upgrades     upgrades                // of this process
	waitedInVain time.Time               // when waiting for permission to restart a member last timed out
	tls          *tls.Config             // client certificate, issued once
	madeOf       string                  // the inputs that tls was made of
	issued       time.Time               // when tls was issued
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
			pace: c.pace, machine: c.machine, leaving: map[string]int{}, known: map[string]knownMachine{}, creates: map[string]error{},
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
	p := &problem.Problem{Summary: summary, Host: s.Label(), Cause: cause, Unchanged: unchanged, Next: next}
	if v != nil {
		p.Detail = v.String()
	}
	return p
}
