// Package kubevip is the endpoint of a control plane at a virtual IP that one of the replicas' machines has, in
// a network of one layer-2 segment and without balancers. The machines elect it by a Lease of the Kubernetes
// API, with kube-vip, and clients reach the API server of the machine that holds the Lease.
//
// The registrar owns what is on a replica's machine: an agent that runs kube-vip while the replica is in rotation
// and its API server is ready, and that removes the address when kube-vip does not. Package controlplane
// creates the Lease, the role that permits to read and update it alone, and a kubeconfig for it on each machine.
package kubevip

import (
	"cmp"
	"context"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// ARP is the mode in which the holder answers for the address on its network: ARP requests, or those of neighbor
// discovery for IPv6.
const ARP = "arp"

// Defaults of settings that are not set. Holders renew the Lease within three fifths of its duration, and others
// try to get it every fifth: kube-vip's recommendation for 5 seconds.
const (
	DefaultProgram       = "/usr/local/bin/kube-vip"
	DefaultLeaseDuration = 5 * time.Second
)

// Spec is the wanted state of one endpoint.
type Spec struct {
	ClusterID     string
	Address       string            // IP address
	Port          int               // of the endpoint, and of every API server; 0 means 6443
	Targets       map[string]string // name → IP address of the same family: the machines of the replicas
	Mode          string            // "" means ARP
	Interface     string            // "" means the one with the machine's own address
	Program       string            // path of kube-vip on the machines; "" means DefaultProgram
	SHA256        string            // of the program; "" is not checked
	LeaseDuration time.Duration     // 0 means DefaultLeaseDuration
	DrainTimeout  time.Duration
}

// Registration returns what the replicas need.
func (s Spec) Registration() endpoint.Registration {
	port := cmp.Or(s.Port, endpoint.DefaultPort)
	return endpoint.Registration{
		Kind: endpoint.KubeVIP, ClusterID: s.ClusterID, Address: s.Address, Hosts: s.Targets,
		Port: port, TargetPort: port, DrainTimeout: s.DrainTimeout,
		KubeVIP: &endpoint.Election{
			Mode: cmp.Or(s.Mode, ARP), Interface: s.Interface, Program: cmp.Or(s.Program, DefaultProgram),
			SHA256: s.SHA256, LeaseDuration: cmp.Or(s.LeaseDuration, DefaultLeaseDuration),
		},
	}
}

// LeaseName returns the name of the Lease of an endpoint. It is also the name of the role that permits to
// update it, and of the group in the certificates of its holders. Names have no colons, so an IPv6 address has
// all its digits, and dashes.
func LeaseName(address string) string {
	if at, err := netip.ParseAddr(address); err == nil && at.Is6() {
		address = strings.ReplaceAll(at.StringExpanded(), ":", "-")
	}
	return "kube-vip-" + address
}

// LeaseOf returns the name of the Lease that a replica with this registration needs. It is "" if none of its
// endpoints is of this kind.
func LeaseOf(r endpoint.Registration) string {
	for _, each := range r.All() {
		if each.Kind == endpoint.KubeVIP {
			return LeaseName(each.Address)
		}
	}
	return ""
}

// Endpoints creates registrars and does the endpoints' own operations.
type Endpoints struct {
	observer *targets.Observer
	turns    *targets.Turns // whose kube-vip is restarted
}

// New returns Endpoints.
func New(observer *targets.Observer) *Endpoints { return &Endpoints{observer, &targets.Turns{}} }

// Create checks that no target belongs to another endpoint of this kind. It changes nothing: replicas install
// the agent when they register.
func (e *Endpoints) Create(ctx context.Context, s Spec) (endpoint.Status, error) {
	return e.converge(ctx, s, "created")
}

// Update is Create with other settings. The replicas take them when they register again.
func (e *Endpoints) Update(ctx context.Context, s Spec) (endpoint.Status, error) {
	return e.converge(ctx, s, "changed")
}

func (e *Endpoints) converge(ctx context.Context, s Spec, what string) (endpoint.Status, error) {
	r := e.For(s.Registration())
	if err := ValidateRegistration(r.Registration); err != nil {
		return endpoint.Status{}, &problem.Problem{
			Summary: "Endpoint " + s.Address + " not " + what, Cause: err.Error(), Unchanged: problem.Nothing,
			Next: "correct the arguments of the endpoint (kube_vip) and apply again", Err: err,
		}
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
			Summary: "Endpoint " + s.Address + " not " + what, Attribute: "kube_vip.targets",
			Cause:     "targets belong to another endpoint, see below: its address would lose these machines",
			Unchanged: problem.Nothing,
			Next: "destroy the replicas of the other endpoint first, or use other targets; if its cluster is gone for good, " +
				"run on the machine: systemctl disable --now " + unitName + "; rm -r " + configDir,
			Detail: strings.Join(others, "\n"),
		}
	}
	return endpoint.Status{ConfigDigest: s.Registration().Digest()}, nil
}

// Read reports what the registration contains. Whether a replica is in rotation is a matter of the replica.
func (e *Endpoints) Read(ctx context.Context, s Spec) (endpoint.Status, error) {
	return endpoint.Status{ConfigDigest: s.Registration().Digest()}, ctx.Err()
}

// Delete refuses while replicas of the endpoint exist. wait is how long it waits for the next one to leave. Then
// it removes what a replica has left behind whose machine could not be reached when it was deleted.
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
