// Package targets observes the replicas behind an endpoint on their own machines, for the kinds of
// endpoint that have no balancers of this provider: external, dns. The targets are the machines of
// the replicas. Whether a replica may leave rotation is decided from what they say.
package targets

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/poll"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

const (
	// observeTimeout limits one observation of all targets.
	observeTimeout = 30 * time.Second
	// interval is the time between two observations while waiting.
	interval = 500 * time.Millisecond
	// ReadyTimeout limits the wait for a replica that has just started.
	ReadyTimeout = 15 * time.Second
)

// Replica is what a machine's record says of the replica there.
type Replica struct {
	Name      string // "" if the machine has none
	Port      int
	ClusterID string
	// Endpoints are those that it is registered at, each as endpoint.Registration.ID.
	Endpoints []string
	// Foreign: no record describes the API server of the machine, such as one of kubeadm that is not imported yet. Then
	// only ClusterID is known, by its authority.
	Foreign bool
}

// Recorded reads the record of the machine at an address.
type Recorded func(ctx context.Context, address string) (Replica, error)

// Observer creates Sets.
type Observer struct {
	// Abandoned are machines that the user has declared lost.
	Abandoned host.Abandoned

	machine  func(address string) *host.Host
	recorded Recorded
}

// NewObserver returns an Observer. machine returns the connection for an address.
func NewObserver(machine func(address string) *host.Host, recorded Recorded) *Observer {
	return &Observer{machine: machine, recorded: recorded}
}

// Set is the targets of one endpoint. It changes nothing on any machine.
type Set struct {
	*Observer
	endpoint.Registration
}

// For returns the targets of one registration.
func (o *Observer) For(registration endpoint.Registration) *Set {
	return &Set{Observer: o, Registration: registration}
}

// Machine returns the connection to the machine at an address.
func (s *Set) Machine(address string) *host.Host { return s.machine(address) }

// Balancers returns the machines of the targets, sorted by name: the lease for changes of
// rotation is taken on them.
func (s *Set) Balancers() []host.LeaseTaker {
	var machines []host.LeaseTaker
	for _, name := range slices.Sorted(maps.Keys(s.Hosts)) {
		machines = append(machines, s.machine(s.Hosts[name]))
	}
	return machines
}

// Replicas returns the targets that have a replica or a Foreign API server, and those whose machine cannot be observed,
// name → host:port.
func (s *Set) Replicas(ctx context.Context) (map[string]string, error) {
	out, reachable := map[string]string{}, 0
	seen := s.Observe(ctx)
	var lost []error
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		t := seen[name]
		if t.MayServe() {
			out[name] = t.At()
		}
		if t.Unreachable != nil {
			lost = append(lost, fmt.Errorf("%s: %w", name, t.Unreachable))
			continue
		}
		reachable++
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if reachable == 0 {
		err := errors.Join(lost...)
		return nil, &problem.Problem{
			Summary: "Replicas of endpoint " + s.Address + " not read",
			Host:    strings.Join(slices.Sorted(maps.Keys(seen)), ", "), Cause: "no target answers: " + err.Error(),
			Unchanged: problem.Nothing, Next: "make one of these hosts reachable and apply again", Err: err,
		}
	}
	return out, nil
}

// ListedAt returns the address of the target of that name, if there is one.
func (s *Set) ListedAt(_ context.Context, name string) ([]string, error) {
	if at := s.Hosts[name]; at != "" {
		return []string{at}, nil
	}
	return nil, nil
}

// WaitUntilEmpty returns when no target has a replica of the endpoint any more. Otherwise it returns
// the names of those that do, when none has left for as long as wait. It returns endpoint.ErrSuperseded as soon as a
// Create has taken the endpoint over. If no target can be observed, that is an error, unless all are abandoned.
func (s *Set) WaitUntilEmpty(
	ctx context.Context, wait time.Duration, superseded endpoint.Superseded,
) ([]string, error) {
	since, before := time.Now(), -1
	for {
		seen := s.Observe(ctx)
		remaining := seen.members()
		taken := superseded.Err()
		switch {
		case taken != nil:
			return nil, taken
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case len(remaining) == 0:
			return nil, s.unobserved(seen)
		case len(remaining) != before:
			since, before = time.Now(), len(remaining)
		case time.Since(since) >= wait:
			return remaining, nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(interval):
		}
	}
}

// unobserved returns the error of a deletion if no target can be observed: they may serve. What is abandoned does not.
func (s *Set) unobserved(seen Observed) error {
	var (
		errs       []error
		unanswered []string // addresses
		abandoned  int
	)
	names := slices.Sorted(maps.Keys(seen))
	for _, name := range names {
		t := seen[name]
		if t.Unreachable == nil {
			return nil
		}
		if t.Abandoned {
			abandoned++
		}
		if host.MayBeLost(t.Unreachable) {
			unanswered = append(unanswered, t.Address)
		}
		errs = append(errs, fmt.Errorf("%s: %w", name, t.Unreachable))
	}
	if abandoned == len(seen) {
		return nil
	}
	next := "make one of these hosts reachable and apply again"
	if len(unanswered) > 0 {
		next += "; or, if their machines are lost for good, " + host.AbandonRemedy(unanswered...)
	}
	err := errors.Join(errs...)
	return &problem.Problem{
		Summary: "Endpoint " + s.Address + " not deleted", Host: strings.Join(names, ", "),
		Cause:     "no target says whether it has a replica: " + err.Error(),
		Unchanged: problem.Nothing, Next: next, Err: err,
	}
}

// InUseError is the error of a deletion while targets have replicas of the endpoint.
func (s *Set) InUseError(remaining []string) error {
	return &problem.Problem{
		Summary:   "Endpoint " + s.Address + " not deleted",
		Cause:     "these machines still have a replica of it: " + strings.Join(remaining, ", "),
		Unchanged: problem.Nothing,
		Next:      "delete these kube_control_plane_replica resources first" + endpoint.MovingHint + endpoint.ForgetHint,
	}
}

// WaitUntil calls try until it succeeds or timeout has passed, and returns its last error.
func WaitUntil(ctx context.Context, timeout time.Duration, try func(context.Context) error) error {
	return poll.Succeed(ctx, interval, timeout, try)
}
