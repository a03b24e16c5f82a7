// Package dns is the endpoint of a control plane at a DNS name. Each replica owns one address record
// (A or AAAA) of that name, in a zone that takes dynamic updates (RFC 2136). A replica adds its
// record when it is ready. It removes the record, and waits until all name servers know that and the
// record's time to live has passed, before it leaves.
//
// Every update requires, as its prerequisite, the set of records that it was decided on: of two
// processes that change the set at the same time, one fails and decides again. No update removes the
// last record, except for the removal of the last replica.
//
// Between applies, an agent on the machine of each replica (a systemd timer) checks all replicas. It
// removes the record of a replica that is not ready, and puts its own back. See agent.sh.
package dns

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Spec is the wanted state of one endpoint.
type Spec struct {
	ClusterID    string
	Address      string            // DNS name
	Port         int               // of the API servers; 0 means 6443
	Targets      map[string]string // name → IP address: the machines of the replicas
	Zone         endpoint.Zone
	DrainTimeout time.Duration
	ProbeFrom    string // address of the machine from which the name servers are asked; "" is this computer
}

// Registration returns what the replicas need.
func (s Spec) Registration() endpoint.Registration {
	port := cmp.Or(s.Port, endpoint.DefaultPort)
	return endpoint.Registration{
		Kind: endpoint.DNS, ClusterID: s.ClusterID, Address: s.Address, Hosts: s.Targets, Port: port, TargetPort: port,
		DrainTimeout: s.DrainTimeout, ProbeFrom: s.ProbeFrom, Zone: &s.Zone,
	}
}

// Endpoints creates registrars and does the endpoints' own operations.
type Endpoints struct {
	observer *targets.Observer
	keys     map[string]Key
}

// New returns Endpoints. keys are the keys that requests are signed with, by name.
func New(observer *targets.Observer, keys map[string]Key) *Endpoints {
	return &Endpoints{observer, keys}
}

// Create checks that the zone can be changed and that the name belongs to nobody else. If replicas
// serve already, their records are completed.
func (e *Endpoints) Create(ctx context.Context, s Spec) (endpoint.Status, error) {
	status, err := e.converge(ctx, nil, 0, s, "created")
	return status, endpoint.Adopted(err) // it changes the records of replicas only, which are in rotation
}

// Update is Create for an endpoint that exists. It also gives the records another time to live, and removes those of
// targets without a replica.
func (e *Endpoints) Update(ctx context.Context, before, s Spec) (endpoint.Status, error) {
	r := e.For(s.Registration())
	var left map[netip.Addr]bool
	if before.Address == s.Address {
		former := e.For(before.Registration())
		if err := r.removeLeft(ctx, former); err != nil {
			return endpoint.Status{}, notConverged(s, "changed", "", err)
		}
		left = r.left(former)
	}
	status, err := e.converge(ctx, left, before.Zone.TTL, s, "changed")
	if err != nil {
		return status, err
	}
	if status.Drift, err = r.removeUnused(ctx, r.Observe(ctx)); err != nil {
		return endpoint.Status{}, notConverged(s, "changed", "", err)
	}
	return status, nil
}

// converge makes the zone what s says. left are the addresses of former targets, and ttl is the time to live before, or
// 0.
func (e *Endpoints) converge(
	ctx context.Context, left map[netip.Addr]bool, ttl time.Duration, s Spec, what string,
) (endpoint.Status, error) {
	r := e.For(s.Registration())
	err := Validate(s.Registration())
	if err == nil {
		err = r.zone.authorized(ctx)
	}
	if err == nil {
		err = r.checkOwners(ctx, left)
	}
	unchanged := problem.Nothing
	if err == nil {
		err, unchanged = r.renewTTL(ctx, ttl), ""
	}
	if err != nil {
		return endpoint.Status{}, notConverged(s, what, unchanged, err)
	}
	return endpoint.Status{ConfigDigest: s.Registration().Digest()}, nil
}

func notConverged(s Spec, what, unchanged string, err error) error {
	return &problem.Problem{
		Summary: "Endpoint " + s.Address + " not " + what, Cause: err.Error(), Unchanged: unchanged,
		Next: nextStep(err), Err: err,
	}
}

// checkOwners returns an error if the name has an address that belongs to no target, and to no former one in left: what
// removeLeft leaves there serves until its replica leaves.
func (r *Registrar) checkOwners(ctx context.Context, left map[netip.Addr]bool) error {
	records, err := r.zone.records(ctx)
	if err != nil {
		return err
	}
	strangers := slices.DeleteFunc(r.strangers(records), func(a netip.Addr) bool { return left[a] })
	if len(strangers) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", errStrangers, addressList(strangers))
}

var errLongTTL = errors.New("the records of the name have a longer time to live than an endpoint may have")

var errStrangers = errors.New("the name has addresses that are not those of the endpoint's targets")

// strangers returns the records that belong to no target.
func (r *Registrar) strangers(records recordSet) []netip.Addr {
	own := r.targetAddresses()
	return slices.DeleteFunc(slices.Clone(records.Addresses), func(a netip.Addr) bool { return own[a] })
}

func (r *Registrar) targetAddresses() map[netip.Addr]bool {
	own := map[netip.Addr]bool{}
	for _, address := range r.Hosts {
		if ip, err := netip.ParseAddr(address); err == nil {
			own[ip] = true
		}
	}
	return own
}

// renewTTL gives all records the wanted time to live. It returns when no cache has one with a longer time: who leaves
// afterwards waits for the new time only. before is the time to live that the endpoint had: an earlier Update may have
// changed the records, and not have waited to the end.
func (r *Registrar) renewTTL(ctx context.Context, before time.Duration) error {
	longest := before
	err := r.zone.change(ctx, func(now recordSet) (u update, err error) {
		u, longest, err = renewed(now, r.zone.TTL, longest)
		return u, err
	})
	if err != nil || longest <= r.zone.TTL {
		return err
	}
	problem.Progress(ctx, "endpoint %s: waiting until records with the longer time to live have left all caches (%s)",
		r.Address, longest)
	return waitForCaches(ctx, longest)
}

// renewed returns the update that gives the records the wanted time to live, and the longest one that a cache may know.
func renewed(now recordSet, wanted, before time.Duration) (u update, longest time.Duration, err error) {
	switch {
	case len(now.Addresses) == 0: // nobody serves
		return update{}, 0, nil
	case now.TTL == wanted:
		return update{}, before, nil
	case now.TTL > maxTTL:
		return update{}, before, fmt.Errorf("%w: %s", errLongTTL, now.TTL)
	}
	return update{add: now.Addresses}, max(before, now.TTL), nil
}

// Read compares the records with the replicas.
func (e *Endpoints) Read(ctx context.Context, s Spec) (endpoint.Status, error) {
	r := e.For(s.Registration())
	status := endpoint.Status{ConfigDigest: s.Registration().Digest()}
	records, err := r.zone.records(ctx)
	if err != nil {
		status.Drift = []string{"its records cannot be read: " + problem.Line(err.Error())}
		return status, ctx.Err()
	}
	status.Drift = r.drift(records, r.Observe(ctx))
	return status, ctx.Err()
}

// Delete refuses while replicas of the endpoint exist. Then it removes what is left of the targets'
// records. If the zone cannot be changed any more, left is called with the reason: no replica depends
// on these records. wait is how long Delete waits for the next replica to leave.
func (e *Endpoints) Delete(
	ctx context.Context, s Spec, wait time.Duration, superseded endpoint.Superseded, left func(why string),
) error {
	r := e.For(s.Registration())
	remaining, err := r.WaitUntilEmpty(ctx, wait, superseded)
	if err != nil {
		return err
	}
	if len(remaining) > 0 {
		return r.InUseError(remaining)
	}
	stale, serving := r.staleAddresses(r.Observe(ctx), func(t targets.Target) error { return r.Probe(ctx, t) })
	if err := superseded.Err(); err != nil { // observing the targets takes time
		return err
	}
	if err := r.remove(ctx, stale); err != nil && ctx.Err() == nil {
		left("the records of its targets, if there are any left, were not removed: " + err.Error())
	}
	if len(serving) > 0 {
		left("the records of " + addressList(serving) + ", if there are any, were not removed: API servers may serve there")
	}
	return ctx.Err()
}

// staleAddresses returns the addresses of the targets without an API server that is ready, and those that have one, or
// of which no machine can tell. The API server may be somebody else's. probe asks that of a machine that is observed.
func (r *Registrar) staleAddresses(
	seen targets.Observed, probe func(targets.Target) error,
) (stale map[netip.Addr]bool, serving []netip.Addr) {
	stale = r.targetAddresses()
	observed := func(name string) bool { return seen[name].Unreachable == nil }
	blind := !slices.ContainsFunc(slices.Collect(maps.Keys(seen)), observed)
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		t := seen[name]
		serves := blind || t.Ready() || observed(name) && probe(t) == nil
		if ip, err := netip.ParseAddr(t.Address); err == nil && serves {
			delete(stale, ip)
			serving = append(serving, ip)
		}
	}
	return stale, serving
}

// left returns the addresses of the targets that only a former registrar of the same name has.
func (r *Registrar) left(former *Registrar) map[netip.Addr]bool {
	left, own := former.targetAddresses(), r.targetAddresses()
	maps.DeleteFunc(left, func(a netip.Addr, _ bool) bool { return own[a] })
	return left
}

// removeLeft removes the records of the targets that only the former registrar of the same name has, and on which no
// API server is ready. A replica that could not be asked, or was the last one, has left its record there.
func (r *Registrar) removeLeft(ctx context.Context, former *Registrar) error {
	left := r.left(former)
	records, err := r.zone.records(ctx)
	if err != nil || !slices.ContainsFunc(records.Addresses, func(a netip.Addr) bool { return left[a] }) {
		return err
	}
	stale, _ := former.staleAddresses(former.Observe(ctx), func(t targets.Target) error { return former.Probe(ctx, t) })
	maps.DeleteFunc(stale, func(a netip.Addr, _ bool) bool { return !left[a] })
	return r.remove(ctx, stale)
}

// remove removes the records of these addresses.
func (r *Registrar) remove(ctx context.Context, addresses map[netip.Addr]bool) error {
	stale := func(now recordSet) []netip.Addr {
		return slices.DeleteFunc(slices.Clone(now.Addresses), func(a netip.Addr) bool { return !addresses[a] })
	}
	now, err := r.zone.records(ctx)
	if err != nil || len(stale(now)) == 0 {
		return err
	}
	return r.zone.change(ctx, func(now recordSet) (update, error) { return update{remove: stale(now)}, nil })
}
