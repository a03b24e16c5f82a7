// Package bgp is the endpoint of a control plane at an IP address that the machines of the replicas
// announce to their routers by BGP. Every machine has the address. It announces it while its own API
// server is ready, and not after the replica was drained.
//
// The registrar owns what is on a replica's machine: bird with a configuration that can announce this
// one prefix and learns none, a health check, the address on the loopback interface, and a mark
// without which nothing is announced. The endpoint itself has nothing on any machine.
package bgp

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Defaults of settings that are not set. A session that is silent for DefaultHoldTime is down. With
// BFD, it is down after three intervals.
const (
	DefaultHoldTime    = 3 * time.Second
	DefaultBFDInterval = 300 * time.Millisecond
	DefaultPropagation = time.Second
)

// bfdMultiplier is how many BFD packets may be missing.
const bfdMultiplier = 3

// Spec is the wanted state of one endpoint.
type Spec struct {
	ClusterID    string
	Address      string            // IP address
	Port         int               // of the endpoint, and of every API server; 0 means 6443
	Targets      map[string]string // name → IP address: the machines of the replicas
	ASN          uint32            // of the machines
	Peers        []endpoint.Peer   // in any order
	HoldTime     time.Duration     // 0 means DefaultHoldTime
	BFDInterval  time.Duration     // 0 means DefaultBFDInterval
	Propagation  time.Duration     // 0 means DefaultPropagation
	DrainTimeout time.Duration
}

// Registration returns what the replicas need.
func (s Spec) Registration() endpoint.Registration {
	port := cmp.Or(s.Port, endpoint.DefaultPort)
	return endpoint.Registration{
		Kind: endpoint.BGP, ClusterID: s.ClusterID, Address: s.Address, Hosts: s.Targets,
		Port: port, TargetPort: port, DrainTimeout: s.DrainTimeout,
		BGP: &endpoint.Announcement{
			ASN:         s.ASN,
			Peers:       sortedPeers(s.Peers),
			HoldTime:    cmp.Or(s.HoldTime, DefaultHoldTime),
			BFDInterval: cmp.Or(s.BFDInterval, DefaultBFDInterval),
			Propagation: cmp.Or(s.Propagation, DefaultPropagation),
		},
	}
}

// sortedPeers returns the peers by address: their order means nothing.
func sortedPeers(peers []endpoint.Peer) []endpoint.Peer {
	sorted := slices.SortedFunc(slices.Values(peers), func(a, b endpoint.Peer) int {
		return strings.Compare(a.Address, b.Address)
	})
	for i, p := range sorted {
		sorted[i].Targets = slices.Sorted(slices.Values(p.Targets))
	}
	return sorted
}

// Endpoints creates registrars and does the endpoints' own operations.
type Endpoints struct {
	observer  *targets.Observer
	passwords map[string]string
	turns     *targets.Turns // who changes the sessions of a machine
}

// New returns Endpoints. passwords has the passwords of sessions, by the name that peers give.
func New(observer *targets.Observer, passwords map[string]string) *Endpoints {
	return &Endpoints{observer, passwords, &targets.Turns{}}
}

// Create checks that the endpoint can be announced, and that no target belongs to another endpoint
// of this kind. It changes nothing: replicas install what announces the address when they register.
func (e *Endpoints) Create(ctx context.Context, s Spec) (endpoint.Status, error) {
	return e.converge(ctx, s, "created")
}

// Update is Create with other settings. The replicas take them when they register again.
func (e *Endpoints) Update(ctx context.Context, s Spec) (endpoint.Status, error) {
	return e.converge(ctx, s, "changed")
}

func (e *Endpoints) converge(ctx context.Context, s Spec, what string) (endpoint.Status, error) {
	r := e.For(s.Registration())
	if err := cmp.Or(ValidateRegistration(r.Registration), r.checkPasswords()); err != nil {
		return endpoint.Status{}, refusedError(s, what, err)
	}
	var others []string
	seen := r.observeMachines(ctx)
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		if m := seen[name]; m.err == nil && m.owner.Other(r.Registration) {
			others = append(others, "  "+name+" ("+s.Targets[name]+"): "+m.owner.String())
		}
	}
	if err := ctx.Err(); err != nil {
		return endpoint.Status{}, err
	}
	if len(others) > 0 {
		return endpoint.Status{}, &problem.Problem{
			Summary: "Endpoint " + s.Address + " not " + what, Attribute: "bgp.targets",
			Cause:     "targets belong to another endpoint, see below: its address would no longer be announced",
			Unchanged: problem.Nothing,
			Next: "destroy the replicas of the other endpoint first, or use other targets; if its cluster is gone for good, " +
				"run on the machine: systemctl disable --now " + strings.Join(units(), " ") + "; rm -r " + configDir,
			Detail: strings.Join(others, "\n"),
		}
	}
	return endpoint.Status{ConfigDigest: s.Registration().Digest()}, nil
}

// Read reports what the registration contains. Whether a replica is in rotation is a matter of the
// replica.
func (e *Endpoints) Read(ctx context.Context, s Spec) (endpoint.Status, error) {
	return endpoint.Status{ConfigDigest: s.Registration().Digest()}, ctx.Err()
}

// Delete refuses while replicas of the endpoint exist. wait is how long it waits for the next one
// to leave. Then it removes what a replica has left behind whose machine could not be reached when it
// was deleted.
func (e *Endpoints) Delete(ctx context.Context, s Spec, wait time.Duration) error {
	r := e.For(s.Registration())
	remaining, err := r.WaitUntilEmpty(ctx, wait)
	if err != nil {
		return err
	}
	if len(remaining) > 0 {
		return r.InUseError(remaining)
	}
	seen := r.observeMachines(ctx)
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		if m := seen[name]; m.err != nil || !m.owner.Exists() || m.owner.Other(r.Registration) {
			continue
		}
		if err := r.clean(ctx, name); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func refusedError(s Spec, what string, err error) error {
	return &problem.Problem{
		Summary: "Endpoint " + s.Address + " not " + what, Cause: err.Error(), Unchanged: problem.Nothing,
		Next: "correct the arguments of the endpoint (bgp) and apply again", Err: err,
	}
}
