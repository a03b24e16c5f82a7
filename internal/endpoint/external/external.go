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
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// HealthCheckPath is what the balancer requests of each target by HTTPS, and takes a target into
// rotation for the status 200.
const HealthCheckPath = "/readyz"

// HealthCheck is how the balancer finds out that a target is not ready.
type HealthCheck struct {
	Interval  time.Duration // between two checks
	Threshold int           // this many failed checks in a row take a target out of rotation
}

// DetectionTime is the longest time until the balancer sends no more requests to a target that is
// not ready.
func (h HealthCheck) DetectionTime() time.Duration { return h.Interval * time.Duration(h.Threshold) }

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
		TargetPort: cmp.Or(s.TargetPort, endpoint.DefaultPort),
	}
}

func (s Spec) validate() error {
	return errors.Join(ValidateAddress(s.Address), ValidateTargets(s.Address, s.Targets),
		ValidateHealthCheck(s.HealthCheck))
}

// digest identifies the settings that the registration contains.
func (s Spec) digest() string {
	sum := sha256.Sum256([]byte(s.Registration().Key()))
	return hex.EncodeToString(sum[:])
}

// Replica is what a machine's record says of the replica there.
type Replica struct {
	Name      string // "" if the machine has none
	Port      int
	ClusterID string
	Endpoint  string // address of the endpoint that it is registered at
}

// Recorded reads the record of the machine at an address.
type Recorded func(ctx context.Context, address string) (Replica, error)

// Endpoints creates registrars and does the endpoints' own operations. They change nothing
// on any machine.
type Endpoints struct {
	machine  func(address string) *host.Host
	recorded Recorded
}

// New returns Endpoints. machine returns the connection for an address.
func New(machine func(address string) *host.Host, recorded Recorded) *Endpoints {
	return &Endpoints{machine: machine, recorded: recorded}
}

// Create checks that the address can be resolved and, if replicas serve already, that the endpoint
// answers.
func (e *Endpoints) Create(ctx context.Context, s Spec) (endpoint.Status, error) {
	return e.converge(ctx, s, "created")
}

// Update is Create with other settings. Nothing has to be changed anywhere.
func (e *Endpoints) Update(ctx context.Context, s Spec) (endpoint.Status, error) {
	return e.converge(ctx, s, "changed")
}

func (e *Endpoints) converge(ctx context.Context, s Spec, what string) (endpoint.Status, error) {
	r := e.For(s.Registration())
	err := s.validate()
	if err == nil {
		err = r.resolves(ctx)
	}
	if err == nil && serving(r.observe(ctx)) {
		err = r.waitUntilAnswers(ctx)
	}
	if err != nil {
		return endpoint.Status{}, &problem.Problem{
			Summary: "Endpoint " + s.Address + " not " + what, Cause: err.Error(), Unchanged: problem.Nothing,
			Next: nextStep(err), Err: err,
		}
	}
	return endpoint.Status{ConfigDigest: s.digest()}, nil
}

// Read probes the endpoint if a replica serves. That nobody answers then is drift.
func (e *Endpoints) Read(ctx context.Context, s Spec) (endpoint.Status, error) {
	r := e.For(s.Registration())
	status := endpoint.Status{ConfigDigest: s.digest()}
	if serving(r.observe(ctx)) {
		if err := r.answers(ctx); err != nil {
			status.Drift = []string{r.url() + " does not answer: " + problem.Line(err.Error())}
		}
	}
	return status, ctx.Err()
}

// Delete refuses while replicas of the endpoint exist. wait is how long it waits for the next one
// to leave.
func (e *Endpoints) Delete(ctx context.Context, s Spec, wait time.Duration) error {
	r := e.For(s.Registration())
	since, before := time.Now(), -1
	for {
		remaining := r.members(r.observe(ctx))
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case len(remaining) == 0:
			return nil
		case len(remaining) != before:
			since, before = time.Now(), len(remaining)
		case time.Since(since) >= wait:
			return inUseError(s, remaining)
		}
		select {
		case <-ctx.Done():
		case <-time.After(interval):
		}
	}
}

// interval is the time between two observations while waiting.
const interval = 500 * time.Millisecond
