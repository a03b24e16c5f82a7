package endpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// checkTime bounds the wait for a replica's first check on a balancer; checks
// are a second apart and may take five.
const checkTime = 15 * time.Second

// Registrar puts backends in and out of rotation on every host of a
// registration, in parallel. It implements what package controlplane asks for.
//
// A balancer that cannot be reached is reported as progress and passed over, as
// long as another one answers: a dead machine sends no traffic. Should it come
// back with an old list of replicas, Registered tells.
type Registrar struct {
	registration Registration
	machine      func(address string) *host.Host
	looks        *singleflight.Group
	sightings    *sightings
}

// Registrars makes registrars that share what they see: a refresh asks for all
// replicas at the same moment, and the balancers are then looked at once.
type Registrars struct {
	machine   func(address string) *host.Host
	looks     singleflight.Group
	sightings sightings
}

// NewRegistrars returns a maker of registrars; machine gives the connection
// for an address.
func NewRegistrars(machine func(address string) *host.Host) *Registrars {
	return &Registrars{machine: machine}
}

// For returns the registrar of one registration.
func (r *Registrars) For(registration Registration) *Registrar {
	return &Registrar{registration: registration, machine: r.machine, looks: &r.looks, sightings: &r.sightings}
}

// Register puts the replica into rotation on every balancer and returns when
// its health check has passed there. address is IP:port.
func (r *Registrar) Register(ctx context.Context, name, address string) error {
	replica, err := parseServer(name, address)
	if err != nil {
		return r.failed("registered", name, "", err)
	}
	answers, err := r.onEach(ctx, register(replica, r.registration.Address))
	if err != nil {
		return r.failed("registered", name, "", err)
	}
	var reasons []string
	for _, balancer := range names(answers) {
		word, rest := answer(answers[balancer])
		switch word {
		case answerUp:
			problem.Progress(ctx, "replica %s is in rotation on %s", name, balancer)
		case answerStopped: // keepalived keeps the address away from it
			problem.Progress(ctx, "HAProxy does not run on %s: replica %s enters its rotation when it starts", balancer, name)
		case answerAbsent:
			reasons = append(reasons, balancer+": the endpoint is not set up there")
		case answerDown:
			reasons = append(reasons, balancer+": "+failedCheck(parseStats(rest), name))
		default:
			reasons = append(reasons, balancer+": unexpected answer "+strconv.Quote(shortened(answers[balancer])))
		}
	}
	if len(reasons) > 0 {
		return r.failed("in rotation", name, strings.Join(reasons, "\n  "), errors.New("not every balancer sends it traffic, see below"))
	}
	return nil
}

func failedCheck(stats []stat, name string) string {
	at := slices.IndexFunc(stats, func(s stat) bool { return s.Name == name })
	if at < 0 {
		return "HAProxy did not take it in"
	}
	found := stats[at]
	return fmt.Sprintf("HAProxy's check of %s says %s %s (%s)", found.Address, found.Status, found.Check, orDefault(found.Last, "no details"))
}

// Deregister removes the replica from every balancer.
func (r *Registrar) Deregister(ctx context.Context, name string) error {
	if err := validateName("replica name", name); err != nil {
		return r.failed("deregistered", name, "", err)
	}
	answers, err := r.onEach(ctx, rotate(deregisterScript, server{Name: name}, 0))
	if err != nil {
		return r.failed("deregistered", name, "", err)
	}
	for _, balancer := range names(answers) {
		switch word, _ := answer(answers[balancer]); word {
		case answerGone, answerAbsent, answerStopped:
		default:
			return r.failed("deregistered", name, "", fmt.Errorf("unexpected answer %q from %s", word, balancer))
		}
	}
	return nil
}

// Registered says in words what is not as after Register on which balancer
// (nil: in rotation everywhere). A balancer that cannot be reached says nothing.
// What a refresh has seen of the balancers in the last 15 seconds is not asked for again.
func (r *Registrar) Registered(ctx context.Context, name, address string) ([]string, error) {
	replica, err := parseServer(name, address)
	if err != nil {
		return nil, r.failed("looked up", name, "", err)
	}
	seen := r.sightings.recent(r.registration, time.Now())
	if seen == nil {
		if seen, err = r.look(ctx); err != nil {
			return nil, r.failed("looked up", name, "", err)
		}
		r.sightings.keep(r.registration, seen, time.Now())
	}
	if len(reachableOf(seen)) == 0 {
		return nil, r.failed("looked up", name, "", unreachableOf(seen))
	}
	return unregistered(replica, seen), nil
}

// OutOfRotation gives the replicas that a balancer sends no new requests, with
// their addresses. A balancer that cannot be reached says nothing.
func (r *Registrar) OutOfRotation(ctx context.Context) (map[string]string, error) {
	seen, err := r.look(ctx)
	if err != nil {
		return nil, r.failed("looked for", "", "", err)
	}
	out := map[string]string{}
	for _, name := range names(seen) {
		for _, replica := range seen[name].stats {
			if !replica.up() {
				out[replica.Name] = replica.Address.String()
			}
		}
	}
	return out, nil
}

// Replicas gives every replica that a balancer lists or still sends requests to,
// whatever its state, with its address. A balancer that does not answer is passed
// over, as long as another one does.
func (r *Registrar) Replicas(ctx context.Context) (map[string]string, error) {
	seen, err := r.look(ctx)
	reachable := reachableOf(seen)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(reachable) == 0 {
		return nil, r.unasked(errors.Join(err, unreachableOf(seen)))
	}
	if err := errors.Join(err, unreachableOf(seen)); err != nil {
		problem.Progress(ctx, "passed over: %v", err)
	}
	return known(reachable), nil
}

// Serving gives the replicas to which a balancer sends new requests, name →
// host:port, by what a refresh has seen in the last 15 seconds, or by a look.
func (r *Registrar) Serving(ctx context.Context) (map[string]string, error) {
	seen := r.sightings.recent(r.registration, time.Now())
	if seen == nil {
		var err error
		if seen, err = r.look(ctx); err != nil {
			return nil, r.failed("looked up", "", "", err)
		}
		r.sightings.keep(r.registration, seen, time.Now())
	}
	all := map[string]string{}
	for _, b := range seen {
		for _, s := range b.stats {
			if s.up() {
				all[s.Name] = s.Address.String()
			}
		}
	}
	return all, nil
}

// known joins what the balancers' files say and what their HAProxy runs with,
// which differ after a change that was cut off. The files count more.
func known(seen map[string]balancer) map[string]string {
	all := map[string]string{}
	for _, name := range names(seen) {
		for _, running := range seen[name].stats {
			all[running.Name] = running.Address.String()
		}
	}
	for _, found := range slices.Backward(listed(seen)) { // of two addresses the first
		all[found.Name] = found.Address.String()
	}
	return all
}

func (r *Registrar) unasked(err error) error {
	return &problem.Problem{
		Summary:   "replicas of endpoint " + r.registration.Address + " not looked up",
		Host:      strings.Join(names(r.registration.Hosts), ", "),
		Cause:     "no balancer answers: " + err.Error(),
		Unchanged: problem.Nothing,
		Next:      "make one of these hosts reachable and apply again",
		Err:       err,
	}
}

// lookTime bounds a look that several callers share, for none of them owns it.
const lookTime = time.Minute

// look observes the balancers, or waits for the look that is under way.
func (r *Registrar) look(ctx context.Context) (map[string]balancer, error) {
	result := r.looks.DoChan(fmt.Sprint(r.registration), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTime)
		defer cancel()
		return observe(ctx, r.spec(), rotationOnly())
	})
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case found := <-result:
		seen, _ := found.Val.(map[string]balancer)
		return seen, found.Err
	}
}

// unregistered compares every reachable balancer with what Register leaves.
func unregistered(replica server, seen map[string]balancer) []string {
	var differences []string
	for _, name := range names(seen) {
		if why := seen[name].outOfRotation(replica); why != "" {
			differences = append(differences, name+": "+why)
		}
	}
	return differences
}

// outOfRotation says why a balancer that answers sends a replica no requests,
// or "".
func (b balancer) outOfRotation(replica server) string {
	listed := slices.IndexFunc(b.servers, func(s server) bool { return s.Name == replica.Name })
	running := slices.IndexFunc(b.stats, func(s stat) bool { return s.Name == replica.Name })
	switch {
	case b.unreachable != nil:
	case b.stranger != "":
		return b.stranger
	case listed < 0:
		return "not registered"
	case b.servers[listed].Address != replica.Address:
		return fmt.Sprintf("registered as %s, wanted %s", b.servers[listed].Address, replica.Address)
	case !b.answers:
		return "HAProxy does not answer"
	case running < 0 || b.stats[running].Address != replica.Address:
		return "HAProxy runs with an older list of replicas"
	case !b.stats[running].up():
		return fmt.Sprintf("out of rotation: %s %s", b.stats[running].Status, b.stats[running].Check)
	}
	return ""
}

// spec is as much of the endpoint as a registration tells.
func (r *Registrar) spec() Spec {
	s := Spec{ClusterID: r.registration.ClusterID, Address: r.registration.Address, Port: r.registration.Port, Hosts: map[string]*host.Host{}}
	for name, address := range r.registration.Hosts {
		s.Hosts[name] = r.machine(address)
	}
	return s
}

// onEach runs c on every balancer. At least one must be reachable.
func (r *Registrar) onEach(ctx context.Context, c host.Command) (map[string]string, error) {
	return r.on(ctx, names(r.registration.Hosts), c)
}

// on runs c on balancers, as whoever is registered at this endpoint: a machine that
// has another one refuses.
func (r *Registrar) on(ctx context.Context, balancers []string, c host.Command) (map[string]string, error) {
	defer r.sightings.forget(r.registration)
	c.Vars = with(c.Vars, Spec{ClusterID: r.registration.ClusterID, Address: r.registration.Address}.ownership())
	var (
		mu          sync.Mutex
		answers     = map[string]string{}
		unreachable []error
	)
	err := onHosts(balancers, func(name string) error {
		output, err := r.machine(r.registration.Hosts[name]).Run(ctx, c)
		if err == nil {
			err = owned(output)
		}
		mu.Lock()
		defer mu.Unlock()
		switch {
		case errors.Is(err, host.ErrUnreachable):
			unreachable = append(unreachable, fmt.Errorf("balancer %s: %w", name, err))
		case err != nil:
			return fmt.Errorf("balancer %s: %w", name, err)
		default:
			answers[name] = output
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(balancers) > 0 && len(answers) == 0 {
		return nil, errors.Join(unreachable...)
	}
	for _, err := range unreachable {
		problem.Progress(ctx, "passed over: %v", err)
	}
	return answers, nil
}

func (r *Registrar) failed(what, name, detail string, err error) error {
	p := &problem.Problem{
		Summary: "replica " + name + " not " + what + " at endpoint " + r.registration.Address,
		Cause:   err.Error(),
		Next:    "mend the cause and apply again: every step may be repeated",
		Err:     err,
	}
	if errors.Is(err, errOther) {
		p.Next = "give the replica the registration of its own cluster's endpoint (endpoint), and that endpoint hosts that no other one has (haproxy.hosts), then apply again"
	}
	if detail != "" {
		p.Detail = "  " + detail
	}
	return p
}

// Balancers are the machines of the registration, in the order of their names.
func (r *Registrar) Balancers() []host.LeaseTaker {
	var machines []host.LeaseTaker
	for _, name := range names(r.registration.Hosts) {
		machines = append(machines, r.machine(r.registration.Hosts[name]))
	}
	return machines
}
