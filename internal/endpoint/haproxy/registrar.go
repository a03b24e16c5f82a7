package haproxy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Registrar adds replicas to the rotation and removes them, on every host of a registration in
// parallel. It implements the interface of package controlplane.
//
// A balancer that cannot be reached is reported as progress and skipped if another one answers: a
// dead machine sends no requests. If it comes back with an outdated list of replicas, Registered
// reports it. While a balancer hangs, no replica leaves on any: it may serve. One that is ready returns on the others.
type Registrar struct {
	registration endpoint.Registration
	machine      func(address string) *host.Host
	observing    *singleflight.Group
	cache        *balancerCache
}

// Registrars creates registrars that share their observations: a refresh reads all replicas at the
// same time, and the balancers are observed once.
type Registrars struct {
	machine   func(address string) *host.Host
	observing singleflight.Group
	cache     balancerCache
}

// NewRegistrars returns Registrars. machine returns the connection for an address.
func NewRegistrars(machine func(address string) *host.Host) *Registrars {
	return &Registrars{machine: machine}
}

// For returns the registrar of one registration.
func (r *Registrars) For(registration endpoint.Registration) *Registrar {
	return &Registrar{registration: registration, machine: r.machine, observing: &r.observing, cache: &r.cache}
}

func (r *Registrar) notObservedError(err error) error {
	return &problem.Problem{
		Summary:   "Replicas of endpoint " + r.registration.Address + " not read",
		Host:      strings.Join(names(r.registration.Hosts), ", "),
		Cause:     "no balancer answers: " + err.Error(),
		Unchanged: problem.Nothing,
		Next:      "make one of these hosts reachable and apply again",
		Err:       err,
	}
}

// observeTimeout limits an observation that several callers share, because the context of none of
// them applies. A Read has twice that time by default, so that it learns of a balancer that hangs.
const observeTimeout = 30 * time.Second

// observe observes the balancers, or waits for an observation that is in progress.
func (r *Registrar) observe(ctx context.Context) (map[string]balancer, error) {
	result := r.observing.DoChan(r.registration.Key(), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), observeTimeout)
		defer cancel()
		return observe(ctx, r.spec(), backendsQuery())
	})
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case answer := <-result:
		seen, _ := answer.Val.(map[string]balancer)
		return seen, answer.Err
	}
}

// spec returns the part of the endpoint that a registration contains.
func (r *Registrar) spec() Spec {
	s := Spec{
		ClusterID: r.registration.ClusterID, Address: r.registration.Address, Address6: r.registration.Address6,
		Further: r.registration.Further,
		Port:    r.registration.Port,
		Hosts:   map[string]*host.Host{},
	}
	for name, address := range r.registration.Hosts {
		s.Hosts[name] = r.machine(address)
	}
	return s
}

// runOnAll runs c on every balancer that can be reached, which must be at least one. Before that, all are asked whether
// they answer: it returns a *hangError if one hangs.
func (r *Registrar) runOnAll(ctx context.Context, c host.Command) (map[string]string, error) {
	return r.runUnlessHung(ctx, r.askAll(ctx, host.Query{}), c)
}

// runUnlessHung is runOnAll for balancers that were asked.
func (r *Registrar) runUnlessHung(ctx context.Context, now asked, c host.Command) (map[string]string, error) {
	if now.hang != nil {
		return nil, now.hang
	}
	return r.runOnAnswering(ctx, now, c)
}

// asked are the balancers of an endpoint, as they answer now.
type asked struct {
	seen        map[string]balancer
	answering   []string
	unreachable []error
	hang        *hangError // nil if none hangs
}

// askAll asks all balancers whether they answer, and the query.
func (r *Registrar) askAll(ctx context.Context, q host.Query) asked {
	s := r.spec()
	seen := observeAll(ctx, s, q)
	now := asked{seen: seen, hang: hanging(s, seen)}
	for _, name := range names(seen) {
		switch err := seen[name].unreachable; {
		case errors.Is(err, host.ErrUnreachable):
			now.unreachable = append(now.unreachable, fmt.Errorf("balancer %s: %w", name, err))
		case !errors.Is(err, host.ErrNoAnswer):
			now.answering = append(now.answering, name)
		}
	}
	return now
}

// runOnAnswering runs c on the balancers that answer. If none does because they cannot be reached, that is an error.
func (r *Registrar) runOnAnswering(ctx context.Context, now asked, c host.Command) (map[string]string, error) {
	if len(now.answering) == 0 && len(now.unreachable) > 0 {
		return nil, errors.Join(now.unreachable...)
	}
	answers, err := r.runOn(ctx, now.answering, c)
	if err == nil {
		reportSkipped(ctx, now.unreachable)
	}
	return answers, err
}

func reportSkipped(ctx context.Context, unreachable []error) {
	for _, err := range unreachable {
		problem.Progress(ctx, "skipped: %v", err)
	}
}

// runOn runs c on balancers for this endpoint: a machine that belongs to another endpoint
// refuses.
func (r *Registrar) runOn(ctx context.Context, balancers []string, c host.Command) (map[string]string, error) {
	defer r.cache.invalidate(r.registration)
	c.Vars = with(c.Vars, Spec{ClusterID: r.registration.ClusterID, Address: r.registration.Address}.ownerVars())
	var (
		mu          sync.Mutex
		answers     = map[string]string{}
		unreachable []error
	)
	err := onHosts(balancers, func(name string) error {
		output, err := r.machine(r.registration.Hosts[name]).Run(ctx, c)
		if err == nil {
			err = checkOwner(output)
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
	reportSkipped(ctx, unreachable)
	return answers, nil
}

func (r *Registrar) operationError(what, name, detail string, err error) error {
	p := &problem.Problem{
		Summary: "Replica " + name + " not " + what + " at endpoint " + r.registration.Address,
		Cause:   err.Error(),
		Next:    "fix the cause and apply again; completed steps are skipped",
		Err:     err,
	}
	if errors.Is(err, errOther) {
		p.Next = "give the replica the registration of its own cluster's endpoint (endpoint), and that endpoint hosts that " +
			"no other one has (haproxy.hosts), then apply again"
	}
	var hang *hangError
	if errors.As(err, &hang) {
		p.Host, p.Unchanged, p.Next = hang.machines, hang.unchanged, hangRemedy
	}
	if detail != "" {
		p.Detail = "  " + detail
	}
	return p
}

// LeavesByStopping returns false: the balancers take a replica out of rotation before it stops.
func (*Registrar) LeavesByStopping() bool { return false }

// AgentsReachDrained returns true: agents have a port with servers of its own (Konnectivity), which are not drained.
func (*Registrar) AgentsReachDrained() bool { return true }

// Balancers returns the machines of the registration, sorted by name.
func (r *Registrar) Balancers() []host.LeaseTaker {
	var machines []host.LeaseTaker
	for _, name := range names(r.registration.Hosts) {
		machines = append(machines, r.machine(r.registration.Hosts[name]))
	}
	return machines
}
