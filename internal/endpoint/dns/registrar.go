package dns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// clientMargin is how long clients may use a record after its time to live has passed: resolvers
// count in seconds.
const clientMargin = time.Second

// Why a target gets no requests although its API server is ready, and why a replica cannot.
var (
	errNotListed = errors.New("its address is not among the DNS records")
	errOtherPort = errors.New("its API server has another port than the endpoint, and DNS cannot translate ports")
)

// Registrar implements the interface of package controlplane for a dns endpoint.
type Registrar struct {
	*targets.Set
	zone zone
	// recorded means that a machine has recorded the registration. Its agent is not changed then: the
	// record of a machine that was taken over must not choose the key that is written there.
	recorded bool
	former   string // the zone that has the records of the replica; "" if it is this one
}

// For returns the registrar of one registration.
func (e *Endpoints) For(registration endpoint.Registration) *Registrar {
	set := e.observer.For(registration)
	z := zone{host: registration.Address, dial: (&net.Dialer{}).DialContext, lookup: set.Lookup}
	if registration.Zone != nil {
		z.Zone = *registration.Zone
	}
	if key, ok := e.keys[z.TSIGKey]; ok {
		z.key = &key
	}
	for _, address := range registration.Hosts {
		z.family = familyOf(address) // of all
	}
	for _, machine := range registration.Hosts { // all are of the same run
		z.around = set.Machine(machine).AroundRequest
	}
	if registration.ProbeFrom != "" {
		z.dial = set.Machine(registration.ProbeFrom).Dial
	}
	return &Registrar{Set: set, zone: z}
}

// From returns the registrar for a replica that comes from another registration at the same name: its records may be at
// another server or in another zone, where clients ask for them until the replica is registered.
func (r *Registrar) From(before endpoint.Registration) *Registrar {
	if was := before.Zone; was != nil && !was.SameRecords(r.zone.Zone) {
		r.former = was.Name + " at " + was.Server
	}
	return r
}

// ForRecorded returns the registrar of a registration that a machine of a cluster has recorded. It
// does not use a key of another cluster, and writes no key.
func (e *Endpoints) ForRecorded(registration endpoint.Registration, clusterName string) *Registrar {
	r := e.For(registration)
	r.recorded = true
	if key := r.zone.key; key != nil && key.ClusterName != "" && key.ClusterName != clusterName {
		r.zone.key, r.zone.foreign = nil, true
	}
	return r
}

// observe observes the targets. One whose address is not among the records gets no requests.
func (r *Registrar) observe(ctx context.Context) (targets.Observed, error) {
	return r.observeLeaving(ctx, "")
}

// observeLeaving is observe for a replica that leaves. While it has a record, it is one of the endpoint, whatever the
// record on its machine names.
func (r *Registrar) observeLeaving(ctx context.Context, name string) (targets.Observed, error) {
	records, err := r.zone.records(ctx)
	if err != nil {
		return nil, r.problem("Records of endpoint "+r.Address+" not read", err)
	}
	seen := r.Observe(ctx)
	if records.has(seen[name].Address) {
		seen = r.WithMoved(ctx, seen, name)
	}
	return listed(seen, records), ctx.Err()
}

// listed marks the targets whose address is not among the records.
func listed(seen targets.Observed, records recordSet) targets.Observed {
	for name, t := range seen {
		if t.Ready() && !records.has(t.Address) {
			t.NotReady = errNotListed
			seen[name] = t
		}
	}
	return seen
}

// unlisted returns why a target that is ready gets no requests, or nil.
func (r *Registrar) unlisted(ctx context.Context, t targets.Target) error {
	records, err := r.zone.records(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", targets.ErrUnknown, err)
	case !records.has(t.Address):
		return errNotListed
	}
	return nil
}

// Register returns when the replica is ready, its agent runs, and all name servers have its
// address. address is IP:port.
func (r *Registrar) Register(ctx context.Context, name, address string) error {
	t, err := r.At(name, address)
	if err == nil && t.Port != r.Port {
		err = fmt.Errorf("%w: %d and %d", errOtherPort, t.Port, r.Port)
	}
	if err == nil {
		err = r.waitUntilReady(ctx, t)
	}
	if err == nil {
		err = r.startAgent(ctx, t)
	}
	if err == nil {
		err = r.list(ctx, t)
	}
	if err != nil {
		return r.problem("Replica "+name+" not in rotation at endpoint "+r.Address, err)
	}
	problem.Progress(ctx, "replica %s is ready, and %s has its address", name, r.Address)
	return nil
}

func (r *Registrar) waitUntilReady(ctx context.Context, t targets.Target) error {
	ready := func(ctx context.Context) error { return r.Probe(ctx, t) }
	if err := targets.WaitUntil(ctx, targets.ReadyTimeout, ready); err != nil {
		return fmt.Errorf("its API server is not ready: %w", err)
	}
	return nil
}

// list adds the record of a target.
func (r *Registrar) list(ctx context.Context, t targets.Target) error {
	ip, err := netip.ParseAddr(t.Address)
	if err != nil {
		return err
	}
	return r.zone.change(ctx, func(now recordSet) (update, error) { return join(now, ip), nil })
}

// unlist removes the record of a target, and returns when no client uses it any more. last: it leaves for good, also
// with the last record, see succeed.
func (r *Registrar) unlist(ctx context.Context, t targets.Target, last bool) error {
	ip, err := netip.ParseAddr(t.Address)
	if err != nil {
		return err
	}
	removed, ttl := false, r.zone.TTL
	err = r.zone.change(ctx, func(now recordSet) (update, error) {
		wanted, err := leave(now, ip, r.targetAddresses())
		if last && errors.Is(err, errLastRecord) {
			wanted, err = r.succeed(ctx, t.Name, ip)
		}
		removed = removed || !wanted.empty()
		ttl = max(ttl, now.TTL) // of another version of the configuration
		return wanted, err
	})
	if last && errors.Is(err, errLastRecord) {
		problem.Progress(ctx, "replica %s leaves, and %s keeps its address (%s): it is the last one, and no other replica "+
			"is ready to take its place; when one is in rotation again, an agent or an apply of the endpoint removes it",
			t.Name, r.Address, t.Address)
		return ctx.Err()
	}
	if err != nil || !removed && !errors.Is(t.NotReady, errNotListed) { // an apply that was cut off may have removed it
		return err
	}
	problem.Progress(ctx, "replica %s: waiting until its address has left all caches (%s)", t.Name, ttl)
	return waitForCaches(ctx, ttl)
}

// waitForCaches returns when no client uses a record with that time to live any more.
func waitForCaches(ctx context.Context, ttl time.Duration) error {
	select {
	case <-time.After(ttl + clientMargin):
	case <-ctx.Done():
	}
	return ctx.Err()
}

// Drain takes the replica's record out for a restart: all others must be ready and have theirs. The
// last record stays: that of the only replica, or of one that is not ready, see keepsLast.
func (r *Registrar) Drain(ctx context.Context, name string) error {
	return r.leave(ctx, name, targets.ToReturn)
}

// DrainForDelete takes the replica's record out for good: another replica must be ready and have
// one. With lastAllowed, the only replica may leave too.
func (r *Registrar) DrainForDelete(ctx context.Context, name string, lastAllowed bool) error {
	if lastAllowed {
		return r.leave(ctx, name, targets.AsLast)
	}
	return r.leave(ctx, name, targets.ForGood)
}

func (r *Registrar) leave(ctx context.Context, name string, how targets.Leaving) error {
	if err := r.zone.checkKey(ctx); err != nil {
		return keyProblem("Replica "+name+" not drained at endpoint "+r.Address, err)
	}
	seen, err := r.observeLeaving(ctx, name)
	if err != nil {
		return err
	}
	t := seen[name]
	if r.former != "" && how == targets.ToReturn && t.Member() && r.Probe(ctx, t) == nil {
		return r.servesFormer(name)
	}
	if err := r.MayLeave(ctx, name, seen, how, r.unlisted); err != nil {
		return err
	}
	if !t.Member() {
		return nil // the machine of another replica, or not a target any more
	}
	err = r.hold(ctx, t)
	if err == nil {
		err = r.unlist(ctx, t, how == targets.AsLast || how == targets.ForGood && !t.Ready())
	}
	if how == targets.ToReturn && errors.Is(err, errLastRecord) {
		err = r.keepsLast(ctx, name)
	}
	if err == nil {
		return nil
	}
	undone := r.undo(ctx, name)
	var refusal *endpoint.Refusal
	if undone == nil && errors.As(err, &refusal) {
		return err
	}
	if undone != nil {
		err = fmt.Errorf("%w; returning it to rotation failed too: %w", err, undone)
	}
	return r.problem("Replica "+name+" not drained at endpoint "+r.Address, err)
}

// keepsLast returns why a replica may not leave for a restart with the last record of a target, or nil. The only
// replica may, and so may one that is not ready. Otherwise the record of another one was removed after it was observed:
// its agent, or another process, found it not ready.
func (r *Registrar) keepsLast(ctx context.Context, name string) error {
	seen, err := r.observeLeaving(ctx, name)
	if err != nil {
		return err
	}
	if err := r.MayLeave(ctx, name, seen, targets.ToReturn, r.unlisted); err != nil {
		return err
	}
	for other, t := range seen {
		if other != name && t.MayServe() && t.Ready() {
			return fmt.Errorf("%w: the records have changed at the same time", errLastRecord)
		}
	}
	return nil
}

// servesFormer refuses to restart a replica whose clients have its address from another zone, where this registrar
// changes nothing.
func (r *Registrar) servesFormer(name string) error {
	if r.recorded {
		return &problem.Problem{
			Summary: "Replica " + name + " not drained at endpoint " + r.Address,
			Cause: "its API server is to be restarted, and an apply that was to move its records between the zone " + r.former +
				" and the zone " + r.zone.Name + " at " + r.zone.Server + " has not finished: clients may use either",
			Unchanged: "the replica serves as before.",
			Next:      "apply the replica alone first (-target), which moves its records; then apply everything",
		}
	}
	return &problem.Problem{
		Summary: "Replica " + name + " not drained at endpoint " + r.Address,
		Cause: "its API server is to be restarted, and the records of the endpoint move in the same apply: clients use " +
			"those in the zone " + r.former + ", which send requests to it until then",
		Unchanged: "the replica serves as before.",
		Next: "apply the endpoint with its former server and zone, and with everything else, then move the records in an " +
			"apply of their own",
	}
}

// undo returns a replica to rotation after a failed drain, whose context may have ended. It does not wait until all
// name servers know that: the replica serves, and one that is late may be why the drain has failed.
func (r *Registrar) undo(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	hasty := *r
	hasty.zone.unawaited = true
	return hasty.Undrain(ctx, name)
}

// undoTimeout limits Undrain after a failed drain, whose context may have ended.
const undoTimeout = time.Minute

// Undrain lets the agent of a replica add the record again, if it is still there, and adds it at once if the replica is
// ready.
func (r *Registrar) Undrain(ctx context.Context, name string) error {
	t := r.Named(ctx, name)
	if t.Address == "" {
		return nil // not a target any more
	}
	there, err := r.release(ctx, t)
	if err == nil && there {
		err = r.relist(ctx, t)
	}
	if err != nil {
		return r.problem("Replica "+name+" not returned to rotation at endpoint "+r.Address, err)
	}
	return nil
}

// relist adds the record of a target that is ready. Its agent adds that of another one when it is.
func (r *Registrar) relist(ctx context.Context, t targets.Target) error {
	if r.Probe(ctx, t) != nil {
		return ctx.Err()
	}
	return r.list(ctx, t)
}

// Deregister removes the agent and the record of a replica. A machine that cannot be reached keeps
// the agent. Without the key, both stay: nobody would maintain a record without an agent.
func (r *Registrar) Deregister(ctx context.Context, name string) error {
	t := r.Named(ctx, name)
	if t.Address == "" {
		return nil // not a target any more
	}
	if t.Shared {
		return nil // the agent and the record are those of the replica that has the machine by now
	}
	if !r.recorded { // otherwise, it leaves as far as that is possible
		if err := r.zone.checkKey(ctx); err != nil {
			return keyProblem("Replica "+name+" not deregistered at endpoint "+r.Address, err)
		}
	}
	var err error
	if t.Other == "" {
		err = r.removeAgent(ctx, t)
	}
	if err == nil || errors.Is(err, host.ErrUnreachable) {
		err = r.unlist(ctx, t, true)
	}
	if err != nil {
		return r.problem("Replica "+name+" not deregistered at endpoint "+r.Address, err)
	}
	return nil
}

// Registered returns why the replica is not in rotation, or nil.
func (r *Registrar) Registered(ctx context.Context, name, address string) ([]string, error) {
	t, err := r.At(name, address)
	if errors.Is(err, targets.ErrNotATarget) {
		return []string{err.Error()}, nil
	}
	if err != nil {
		return nil, r.problem("Replica "+name+" not looked up at endpoint "+r.Address, err)
	}
	records, err := r.zone.records(ctx)
	if err != nil {
		return nil, r.problem("Replica "+name+" not looked up at endpoint "+r.Address, err)
	}
	var differences []string
	if err := r.Readiness(ctx, t); err != nil {
		differences = append(differences, "not ready: "+problem.Line(err.Error()))
	} else if !records.has(t.Address) {
		differences = append(differences, "out of rotation: "+errNotListed.Error())
	}
	more, err := r.agentDrift(ctx, t)
	return append(differences, more...), err
}

// OutOfRotation returns the replicas that are not ready or have no record, name → host:port.
func (r *Registrar) OutOfRotation(ctx context.Context) (map[string]string, error) {
	seen, err := r.observe(ctx)
	return seen.OutOfRotation(), err
}

// Serving returns the replicas that are ready and have a record, name → host:port.
func (r *Registrar) Serving(ctx context.Context) (map[string]string, error) {
	seen, err := r.observe(ctx)
	return seen.Serving(), err
}

// LeavesByStopping returns false: a replica leaves with its record.
func (*Registrar) LeavesByStopping() bool { return false }

// AgentsReachDrained returns false: the name has the addresses of the replicas in rotation only.
func (*Registrar) AgentsReachDrained() bool { return false }

// Health observes the targets and the records. It never fails: what is wrong is in the result.
func (r *Registrar) Health(ctx context.Context) targets.Health {
	records, err := r.zone.records(ctx)
	h := targets.HealthOf(listed(r.Observe(ctx), records))
	h.URL = r.BaseURL()
	switch {
	case err != nil:
		h.Silence = problem.Line(err.Error())
	case len(records.Addresses) == 0:
		h.Silence = "the name has no address"
	}
	return h
}

func (*Registrar) problem(summary string, err error) error {
	return &problem.Problem{Summary: summary, Cause: err.Error(), Next: nextStep(err), Err: err}
}

// keyProblem is the error of a replica that does not leave, because updates cannot be signed.
func keyProblem(summary string, err error) error {
	return &problem.Problem{Summary: summary, Cause: err.Error(), Unchanged: keptRecord, Next: nextStep(err), Err: err}
}

const keptRecord = "the replica keeps its record and its agent."

// nextStep says what to do about an error.
func nextStep(err error) string {
	switch {
	case errors.Is(err, errOtherKey):
		return "examine that machine, which may have been taken over, or correct cluster_name of the key (tsig_keys of the " +
			"provider)"
	case errors.Is(err, errNoKey):
		return "add the key to tsig_keys of the provider, and keep it there until no replica is at the endpoint any more; " +
			"then apply again"
	case errors.Is(err, errSignature):
		return "compare the name, the algorithm and the secret of the key (tsig_keys of the provider) with those of " +
			"the name server (dns.server), and both clocks, then apply again"
	case errors.Is(err, errRefused):
		return "allow the key to change the address records of this name (BIND: update-policy { grant KEY name NAME A " +
			"AAAA; }), and to query the zone, then apply again"
	case errors.Is(err, errNotInZone):
		return "set dns.zone to the zone that has the name, and dns.server to its primary server, then apply again"
	case errors.Is(err, errLongTTL):
		return "give the records a time to live of at most " + maxTTL.String() + ", wait until the former one has passed, " +
			"then apply again"
	case errors.Is(err, errStrangers), errors.Is(err, errAlias), errors.Is(err, errFamily):
		return "use another name (address), or delete these records if nobody needs them, then apply again"
	case errors.Is(err, errLagging):
		return "repair the transfer of the zone to these name servers, or list the name servers that clients use " +
			"(dns.name_servers), then apply again"
	case errors.Is(err, targets.ErrUnresolved):
		return "list the addresses of the name servers that clients use (dns.name_servers), then apply again"
	case errors.Is(err, targets.ErrNotATarget):
		return "add the replica to dns.targets of the endpoint, then apply again"
	case errors.Is(err, errOtherPort):
		return "set port of the endpoint and of its replicas to the same value, then apply again"
	case errors.Is(err, errNoPrograms):
		return "install them on the machine, or set dns.install_packages = true, then apply again"
	}
	return "fix the cause above, then apply again; if this computer cannot reach the name servers, name a machine that " +
		"can (dns.probe_from)"
}
