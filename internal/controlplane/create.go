package controlplane

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/connections"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/host/barrier"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Create installs and starts the three components, waits until all are ready, ensures the
// kubeadm:cluster-admins binding, and registers the replica with the endpoint. It continues an
// interrupted call. A running replica of the same identity is changed as by Update.
func (r *Replicas) Create(ctx context.Context, s Spec) (status Status, err error) {
	if err := s.Validate(); err != nil {
		return Status{}, notBegun(s, err)
	}
	done := r.inProgress.create(s)
	defer func() { done(err) }()
	held, err := takeMachineLease(ctx, s)
	if err != nil {
		return Status{}, notBegun(s, err)
	}
	defer held.Release()
	status, adopted, err := r.create(held.Context(ctx), s)
	if err == nil {
		status, err = r.followKubelet(held.Context(ctx), s, status)
		err = notFollowed(s, err, adopted)
	}
	if err != nil && adopted {
		err = &adoption{err}
	}
	return status, err
}

// notBegun returns the failure of a step before the first change as a problem that says so: see host.NotBegun. The
// provider knows how its machines are reached.
func notBegun(s Spec, err error) error {
	return host.NotBegun(err, problem.Problem{Summary: "Control-plane replica not created", Host: s.Machine()})
}

// withReplica returns the failure of a step that follows the creation or a change of a replica: that changed something.
func withReplica(err error) error {
	var p *problem.Problem
	if errors.As(err, &p) && p.Unchanged == problem.Nothing {
		p.Unchanged = "the replica, which serves, and is in rotation."
	}
	return err
}

// create also reports whether the replica was there before.
func (r *Replicas) create(ctx context.Context, s Spec) (status Status, adopted bool, err error) {
	f, adopted, err := r.checkCreate(ctx, s)
	if err != nil {
		return Status{}, false, notBegun(s, err)
	}
	if adopted {
		status, err := r.stages(ctx, s)
		return status, true, err
	}
	d, err := decide(s.Replica, f, time.Now())
	if err != nil {
		return Status{}, false, notBegun(s, err)
	}
	if err := install(ctx, s); err != nil {
		return Status{}, false, withNode(err, s.Replica, f)
	}
	d.isCreate = f.Record.ClusterID == ""
	d.agents = r.agentsToAwait(ctx, s, f, d)
	if err := bringUp(ctx, s, d); err != nil {
		return Status{}, false, withRotationState(err, "it was not registered: the endpoint sends it no requests.")
	}
	if err := settleFilesList(ctx, s, d); err != nil {
		return Status{}, false, err
	}
	if f.Rollback != nil { // of an upgrade that was given up: what runs now is s
		if err := removeRollbackRecord(ctx, s); err != nil {
			return Status{}, false, err
		}
	}
	status, err = enterRotation(ctx, s, d.agents)
	return status, false, notRegistered(s, err)
}

// checkCreate returns the machine if the replica may be created on it, or runs there already. It changes nothing on it.
func (r *Replicas) checkCreate(ctx context.Context, s Spec) (f machine.Observed, adopted bool, err error) {
	joining := r.beginCheckJoin(ctx, s)
	if f, err = machine.Inspect(ctx, s.Host, s.Replica); err != nil {
		return f, false, err
	}
	if err := machine.Preflight(s.Replica, f); err != nil {
		return f, false, err
	}
	if err := checkKubelet(s, f); err != nil {
		return f, false, err
	}
	first, err := joining()
	if err != nil {
		return f, false, err
	}
	if f.Record.IsFor(s.Replica) {
		// One that is stopped while its etcd member changes, perhaps by another process, is changed under the lock too.
		adopted = machine.ProcessExists(f.Runtime().State(f.Facts, release.APIServer))
		if !adopted {
			adopted, err = isPaused(ctx, s, f.Runtime())
		}
		if adopted || err != nil {
			return f, adopted, err
		}
	}
	if err := checkBarriers(ctx, s); err != nil {
		return f, false, err
	}
	if err := r.checkConnections(ctx, s, f); err != nil {
		return f, false, err
	}
	if err := r.awaitRotation(ctx, s, f); err != nil {
		return f, false, err
	}
	if f.Record.ClusterID != "" { // the API server is stopped, and the bundle may lack the key that it has there
		return f, false, checkReadable(ctx, s, f)
	}
	if err := checkReadableByNew(ctx, s, f); err != nil || !first {
		return f, false, err
	}
	return f, false, r.saveBeforeJoin(ctx, s)
}

// notRegistered returns the failure of the step after which a replica exists: Terraform marks it as tainted, because a
// provider cannot do otherwise, and would replace it. nil stays nil.
func notRegistered(s Spec, err error) error {
	if err == nil {
		return nil
	}
	p, err := asTainted(s, "Control-plane replica not registered", err)
	p.Unchanged = "the replica, which runs and is in the state. Terraform marks it as tainted: the next apply replaces it."
	return err
}

// notFollowed returns the failure of the step with which the kubelet follows a replica that is created, and serves. As
// in notRegistered, Terraform marks it as tainted, unless it was adopted. What the step has left unchanged stays in the
// error. nil stays nil.
func notFollowed(s Spec, err error, adopted bool) error {
	if err = withReplica(err); err == nil || adopted {
		return err
	}
	p, err := asTainted(s, "Kubelet does not follow its control-plane replica", err)
	p.Unchanged = strings.TrimSpace(p.Unchanged + " Terraform marks the replica as tainted: the next apply replaces it.")
	return err
}

// asTainted returns the failure of a Create that leaves a replica as a problem that says how to keep it.
func asTainted(s Spec, summary string, err error) (*problem.Problem, error) {
	var p *problem.Problem
	if !errors.As(err, &p) {
		p = &problem.Problem{
			Summary: summary, Host: s.Machine(), Cause: err.Error(), Err: err, Next: "fix the cause, then apply again",
		}
		err = p
	}
	p.Next = strings.TrimPrefix(strings.TrimSuffix(p.Next, ".")+"; "+problem.Untaint, "; ")
	return p, err
}

// checkBarriers returns an error if clients would not reach the API server on its machine, or agents
// the proxy server.
func checkBarriers(ctx context.Context, s Spec) error {
	openings := []barrier.Opening{{Protocol: "tcp", Port: s.APIPort()}}
	if s.Konnectivity != nil {
		openings = append(openings, barrier.Opening{Protocol: "tcp", Port: s.Konnectivity.AgentPort})
	}
	problems, err := barrier.Problems(ctx, s.Host, barrier.Needs{Openings: openings})
	if err != nil || len(problems) == 0 {
		return err
	}
	return machine.Unsuitable(s.Replica, problems)
}

// checkConnections returns an error if a connection between the replica's machine, on which nothing of it
// is yet, and another one is closed.
func (r *Replicas) checkConnections(ctx context.Context, s Spec, f machine.Observed) error {
	if !f.IsEmpty(s.Replica) {
		return nil
	}
	sides := map[netip.Addr]connections.Side{}
	for _, rule := range s.Rules {
		for _, address := range []netip.Addr{rule.Machine, rule.Remote.Addr()} {
			own := address.String() == s.Address
			sides[address] = connections.Side{Machine: connections.SSH{Host: r.machine(address.String())}, Bare: own}
		}
	}
	var lines []string
	for _, c := range connections.Check(ctx, s.Rules, sides) {
		lines = append(lines, c.String())
	}
	if len(lines) == 0 {
		return nil
	}
	return &problem.Problem{
		Summary: "Control-plane replica cannot be created: closed connections", Host: s.Machine(),
		Cause:     "connections that it needs are closed between its machine and others",
		Unchanged: problem.Nothing, Next: connections.Next, Detail: "  " + strings.Join(lines, "\n  "),
	}
}

// ErrAdopted means that Create found the replica running, and changing it failed.
var ErrAdopted = errors.New("the replica was there before")

// adoption marks a failure as ErrAdopted without changing its text.
type adoption struct{ error }

func (a *adoption) Unwrap() []error { return []error{a.error, ErrAdopted} }
