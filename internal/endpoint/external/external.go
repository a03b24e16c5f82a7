// Package external is the endpoint of a control plane at an address that others look after: a
// cloud's load balancer, a hardware balancer, an ingress of the platform. The provider registers
// nobody there. The balancer's own health check of /readyz decides what is in rotation, and a
// replica leaves it by --shutdown-delay-duration: a stopping API server is not ready any more, and
// serves until the balancer has noticed.
//
// The targets (the machines of the replicas) say who belongs to the endpoint. Whether one may leave
// is decided from their readiness, which is observed on the machines themselves.
package external

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// HealthCheck is how the balancer finds out that a target is not ready.
type HealthCheck struct {
	Interval  time.Duration // between two checks
	Threshold int           // this many failed checks in a row take a target out of rotation
	Healthy   int           // this many successful ones put it into rotation; 0 is Threshold
}

// DetectionTime is the longest time until the balancer sends no more requests to a target that is
// not ready.
func (h HealthCheck) DetectionTime() time.Duration { return h.Interval * time.Duration(h.Threshold) }

// HealthyTime is the longest time until the balancer sends requests to a target that has become ready. Zero is
// DetectionTime, also if both are the same: a registration has one form of the same meaning.
func (h HealthCheck) HealthyTime() time.Duration {
	if h.Healthy == h.Threshold {
		return 0
	}
	return h.Interval * time.Duration(h.Healthy)
}

// HealthCheckOf returns a health check with the times of a registration, which does not have its interval. It has the
// usual threshold, unless only another interval has both times as multiples: then the longest such one.
func HealthCheckOf(r endpoint.Registration, usual int) HealthCheck {
	interval := r.DetectionTime / time.Duration(usual)
	if interval <= 0 || r.HealthyTime != 0 && (r.HealthyTime%interval != 0 || r.DetectionTime%interval != 0) {
		interval = r.DetectionTime
		for rest := r.HealthyTime; rest > 0; {
			interval, rest = rest, interval%rest
		}
	}
	if interval <= 0 {
		return HealthCheck{Threshold: usual}
	}
	return HealthCheck{
		Interval: interval, Threshold: int(r.DetectionTime / interval), Healthy: int(r.HealthyTime / interval),
	}
}

// Spec is the wanted state of one endpoint.
type Spec struct {
	ClusterID    string
	Address      string            // IP address or DNS name
	Port         int               // 0 means 6443
	Targets      map[string]string // name → IP address: the machines of the replicas
	TargetPort   int               // of the API servers; 0 means 6443
	HealthCheck  HealthCheck
	DrainTimeout time.Duration
	ProbeFrom    string // address of the machine from which the endpoint is probed; "" is this computer
	Hooks        endpoint.Hooks
}

// Registration returns what the replicas need.
func (s Spec) Registration() endpoint.Registration {
	return endpoint.Registration{
		Kind: endpoint.External, ClusterID: s.ClusterID, Address: s.Address, Hosts: s.Targets,
		Port:         cmp.Or(s.Port, endpoint.DefaultPort),
		DrainTimeout: s.DrainTimeout, DetectionTime: s.HealthCheck.DetectionTime(), ProbeFrom: s.ProbeFrom, Hooks: s.Hooks,
		TargetPort: cmp.Or(s.TargetPort, endpoint.DefaultPort), HealthyTime: s.HealthCheck.HealthyTime(),
	}
}

func (s Spec) validate() error {
	return errors.Join(targets.ValidateAddress(s.Address), targets.Validate(s.Address, s.Targets),
		ValidateHealthCheck(s.HealthCheck), ValidateHooks(s.Hooks))
}

// Endpoints creates registrars and does the endpoints' own operations. They change nothing
// on any machine.
type Endpoints struct {
	observer *targets.Observer
	entries  *entries
}

// New returns Endpoints.
func New(observer *targets.Observer) *Endpoints { return &Endpoints{observer, newEntries()} }

// Create checks that the address can be resolved and, if replicas serve already, that the endpoint
// answers.
func (e *Endpoints) Create(ctx context.Context, s Spec) (endpoint.Status, error) {
	return e.converge(ctx, s, "created")
}

// Update is Create with other settings. Nothing has to be changed anywhere.
func (e *Endpoints) Update(ctx context.Context, _, s Spec) (endpoint.Status, error) {
	return e.converge(ctx, s, "changed")
}

func (e *Endpoints) converge(ctx context.Context, s Spec, what string) (endpoint.Status, error) {
	r := e.For(s.Registration())
	err := s.validate()
	if err == nil {
		err = r.Resolves(ctx)
	}
	if err == nil && len(r.Observe(ctx).Serving()) > 0 {
		err = r.WaitUntilAnswers(ctx)
	}
	if err != nil {
		return endpoint.Status{}, &problem.Problem{
			Summary: "Endpoint " + s.Address + " not " + what, Cause: err.Error(), Unchanged: problem.Nothing,
			Next: nextStep(err), Err: err,
		}
	}
	return endpoint.Status{ConfigDigest: s.Registration().Digest()}, nil
}

// Read probes the endpoint if a replica serves. That nobody answers then is drift.
func (e *Endpoints) Read(ctx context.Context, s Spec) (endpoint.Status, error) {
	r := e.For(s.Registration())
	status := endpoint.Status{ConfigDigest: s.Registration().Digest()}
	if len(r.Observe(ctx).Serving()) > 0 {
		if err := r.Answers(ctx); err != nil {
			status.Drift = []string{r.BaseURL() + " does not answer: " + problem.Line(err.Error())}
		}
	}
	return status, ctx.Err()
}

// Delete refuses while replicas of the endpoint exist. wait is how long it waits for the next one
// to leave.
func (e *Endpoints) Delete(
	ctx context.Context, s Spec, wait time.Duration, superseded endpoint.Superseded,
) error {
	r := e.For(s.Registration())
	remaining, err := r.WaitUntilEmpty(ctx, wait, superseded)
	if err == nil && len(remaining) > 0 {
		err = r.InUseError(remaining)
	}
	return err
}
