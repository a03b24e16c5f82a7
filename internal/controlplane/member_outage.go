package controlplane

import (
	"context"
	"errors"
	"fmt"
	"path"
	"sync"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/runtime"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Outage represents one change of an etcd member for the replica on the same machine, from Open
// until it ends. When it ends, in whatever way, it releases the replica that it keeps paused.
// From then on any process may return the replica to rotation.
type Outage struct {
	replicas *Replicas
	member   StackedMember

	mu     sync.Mutex
	paused *Spec // the replica that this change has stopped

	interrupted bool // before it has stopped a replica: nothing is to be returned
}

// Outage returns the outage for a change of the member described by b. It implements
// etcd.Outage.
func (r *Replicas) Outage(b StackedMember) *Outage { return &Outage{replicas: r, member: b} }

// Open marks the beginning of the change and returns the function that ends it.
func (o *Outage) Open() (end func()) {
	done := o.replicas.inProgress.memberChange(o.member.Host.Address())
	return func() {
		o.unpause()
		done()
	}
}

// Begins takes the replica out of rotation and stops it before its only etcd member stops.
// Otherwise its API server would fail every request in the meantime, on connections that
// clients keep. A replica with other members stays, and so does a replica that does not serve.
// An unreachable machine does not prevent the change; an API server whose readiness is unknown
// does. An API server of kubeadm that is not taken over cannot be drained, so one that serves prevents the change.
func (o *Outage) Begins(ctx context.Context) error {
	s, state, err := o.member.dependentReplica(ctx)
	if err == nil && state.foreign != nil {
		return refuseForeign(ctx, *state.foreign)
	}
	if s == nil || err != nil || !state.running {
		return err
	}
	serving, err := checkServing(ctx, *s)
	if err != nil || !serving {
		return err
	}
	problem.Progress(ctx, "%s: its etcd member is about to stop", s.Machine())
	options := drainOptions{stops: true, duringMember: true, check: func(ctx context.Context, _ heldLock) error {
		return checkListed(ctx, s.Registrar, s.Name, s.Address)
	}}
	lock, _, err := o.replicas.drain(ctx, *s, options)
	if err != nil {
		o.interrupted = ctx.Err() != nil
		return err
	}
	defer lock.release()
	o.pause(*s)
	problem.Progress(ctx, "%s: stopping the components until its etcd member serves again", s.Machine())
	return stopForReturn(lock.context(ctx), *s)
}

// refuseForeign returns an error if an API server that is not taken over serves. One whose readiness is unknown is not
// known to serve.
func refuseForeign(ctx context.Context, s Spec) error {
	if serving, err := checkServing(ctx, s); err != nil || !serving {
		return nil //nolint:nilerr // see above
	}
	return &problem.Problem{
		Summary: "etcd member not stopped", Host: s.Host.Address(), Unchanged: problem.Nothing,
		Cause: "it is the only member of the API server on its machine, or may be, and that one serves, and is not taken " +
			"over, such as one of kubeadm: nothing drains it",
		Next: "import the replica of the machine too (kube_control_plane_replica), and apply with what the member has now; " +
			"then apply this change. If its manifest cannot be imported, stop it while the member changes.",
	}
}

// stopForReturn stops the components until startAndRegister starts them again. The mark lets any
// process do that, if this one ends.
func stopForReturn(ctx context.Context, s Spec) error {
	return runStop(ctx, s, runtime.Of(s.Replica).Pause(release.Components()))
}

func runStop(ctx context.Context, s Spec, stop host.Script) error {
	mark := runtime.Of(s.Replica).PausedPath()
	script := "touch " + host.Words(mark) + "\n" + host.Flush(mark, path.Dir(mark)) + stop
	if _, err := s.Host.Run(ctx, host.Command{Script: script}); err != nil {
		return fmt.Errorf("stop replica %s: %w", s.Machine(), err)
	}
	return nil
}

// Stop stops the replica on the machine, whatever it does and however many members it uses, because
// the data of all members is about to be replaced. It is neither drained nor stopped in order: without
// etcd it serves nothing, and kube-apiserver waits for etcd until systemd kills it after 90 s. Ended
// starts it again.
func (r *Replicas) Stop(ctx context.Context, b StackedMember) error {
	s, state, err := b.replica(ctx)
	switch {
	case err != nil:
		return err
	case state.unreached != nil:
		return fmt.Errorf("stop the replica on %s: %w", b.Host.Address(), state.unreached)
	case state.unrecorded:
		return fmt.Errorf("the machine %s has %s: stop it, and keep it stopped until etcd is restored, because it would "+
			"serve and write in the middle", b.Host.Address(), machine.ForeignAPIServer)
	case s == nil:
		return nil
	}
	ctx, unlock, err := r.changeLocks.acquireToStop(ctx, *s, s.Host)
	if err != nil {
		return err
	}
	defer unlock()
	problem.Progress(ctx, "%s: stopping the components until etcd is restored", s.Machine())
	by := runtime.Of(s.Replica)
	return runStop(ctx, *s, by.Kill(release.APIServer)+by.Pause(release.Components()))
}

// notResumed says what a change of a member has left that could not return the replica.
const notResumed = "the data of etcd; the replica stays out of rotation until it is applied again."

// Ended starts what Begins has stopped, in this run or an earlier one, and registers the
// replica when it is ready. A replica that lost its member in another way is made to reconnect.
//
// While the only member of a paused replica does not run, because the change was cut off in the middle, the replica
// stays as it is: it would serve nothing.
func (o *Outage) Ended(ctx context.Context) error {
	if o.interrupted {
		return nil
	}
	s, _, err := o.member.resumableReplica(ctx)
	if s == nil || err != nil {
		return err
	}
	lock, err := o.replicas.changeLocks.acquire(ctx, *s)
	if err != nil {
		return withRotationState(fmt.Errorf("resume replica %s: %w", s.Machine(), err), notResumed)
	}
	end := lock.release
	defer func() { end() }()
	ctx = lock.context(ctx)
	s, state, err := o.member.resumableReplica(ctx) // observed again: another process may have returned it
	if s == nil || err != nil {
		return err
	}
	if !state.paused {
		recoverAfterMember(ctx, *s, state)
		o.unpause()
		return nil // other problems of the replica are unrelated to this change
	}
	if state.orphan {
		return withRotationState(fmt.Errorf("resume replica %s: its etcd member does not run", s.Machine()), notResumed)
	}
	if err := checkListed(ctx, s.Registrar, s.Name, s.Address); err != nil {
		return withRotationState(fmt.Errorf("resume replica %s: %w", s.Machine(), err), notResumed)
	}
	err = startAndRegister(ctx, *s, release.Components())
	end = func() { lock.finish(err == nil) }
	if err != nil {
		return withRotationState(fmt.Errorf("resume replica %s: %w", s.Machine(), err), notResumed)
	}
	o.unpause()
	problem.Progress(ctx, "%s: back in rotation", s.Machine())
	return nil
}

// errPausedMeanwhile means that what was decided about a replica does not apply any more.
var errPausedMeanwhile = errors.New("a change of its etcd member has stopped it meanwhile: it is observed again")

// checkNotPaused returns errPausedMeanwhile if an Outage of this process keeps the replica paused, or if the API server
// ran when f was observed, and an Outage of another process, which has ended or was cut off, has stopped it before the
// caller had the lock.
func (r *Replicas) checkNotPaused(ctx context.Context, s Spec, f machine.Observed) error {
	if r.paused.has(s.Bundle.ClusterID, s.Name) {
		return errPausedMeanwhile
	}
	if !machine.ProcessExists(f.Runtime().State(f.Facts, release.APIServer)) ||
		!allOnMachine(f.Record.Etcd, s.Host.Address()) {
		return nil
	}
	if paused, err := isPaused(ctx, s, f.Runtime()); err != nil || !paused {
		return err
	}
	return errPausedMeanwhile
}

// isPaused reports whether an Outage has stopped the replica, and nothing has started it since.
func isPaused(ctx context.Context, s Spec, by runtime.Runtime) (bool, error) {
	facts, err := s.Host.Observe(ctx, machine.PausedQuery())
	if err != nil {
		return false, fmt.Errorf("look for a change of the etcd member on %s: %w", s.Machine(), err)
	}
	_, marked := facts.Files[by.PausedPath()]
	return marked && !machine.ProcessExists(by.State(facts, release.APIServer)), nil
}

// pause records that the replica is out of rotation for this change. Until unpause, other
// processes change no replica of its control plane, and this process does not return the
// replica to rotation.
func (o *Outage) pause(s Spec) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.paused != nil {
		return
	}
	o.paused = &s
	o.replicas.changeLocks.of(s.Bundle.ClusterID).keepLease()
	o.replicas.paused.add(s, o)
}

// unpause releases the replica.
func (o *Outage) unpause() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.paused == nil {
		return
	}
	s := *o.paused
	o.paused = nil
	o.replicas.paused.remove(s, o)
	o.replicas.changeLocks.of(s.Bundle.ClusterID).dropLease()
}

// pausedReplicas are the replicas that changes in this process keep out of rotation.
type pausedReplicas struct {
	mu      sync.Mutex
	outages map[string]*Outage // by cluster id and name
	changed chan struct{}      // closed when one of them has ended; nil: nobody waits
}

func (p *pausedReplicas) add(s Spec, o *Outage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.outages == nil {
		p.outages = map[string]*Outage{}
	}
	p.outages[s.Bundle.ClusterID+"/"+s.Name] = o
}

func (p *pausedReplicas) remove(s Spec, o *Outage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if key := s.Bundle.ClusterID + "/" + s.Name; p.outages[key] == o {
		delete(p.outages, key)
	}
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

func (p *pausedReplicas) has(cluster, name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.outages[cluster+"/"+name] != nil
}

// wait returns when no change in this process keeps the replica paused: what it would start has no etcd.
func (p *pausedReplicas) wait(ctx context.Context, s Spec) error {
	for waits := false; ; waits = true {
		changed := p.next(s)
		if changed == nil {
			return nil
		}
		if !waits {
			problem.Progress(ctx, "%s: waiting until the change of its etcd member has ended", s.Machine())
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for the change of the etcd member of replica %s: %w", s.Machine(), ctx.Err())
		}
	}
}

// next returns what is closed when an outage has ended; nil if none keeps the replica paused.
func (p *pausedReplicas) next(s Spec) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.outages[s.Bundle.ClusterID+"/"+s.Name] == nil {
		return nil
	}
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	return p.changed
}

// servingAttempts is how often an API server that does not answer is probed.
const servingAttempts = 3

// checkServing reports whether the replica serves. It returns an error if the API server does
// not answer after several attempts, because the next step would stop it.
func checkServing(ctx context.Context, s Spec) (bool, error) {
	for attempt := 1; ; attempt++ {
		serving, err := s.client().Serves(ctx)
		if err == nil || attempt == servingAttempts || ctx.Err() != nil {
			return serving, servingUnknown(s, err)
		}
		select {
		case <-time.After(pollInterval):
		case <-ctx.Done():
		}
	}
}

// servingUnknown returns the error of a change that is refused because the API server does not
// answer; nil if err is nil.
func servingUnknown(s Spec, err error) error {
	if err == nil {
		return nil
	}
	return &problem.Problem{
		Summary: "Control-plane replica not stopped", Host: s.Machine(), Err: err, Unchanged: problem.Nothing,
		Cause: "cannot determine whether it is serving: " + err.Error(),
		Next: "correct this, or stop an API server that hangs (" + runtime.Of(s.Replica).StopByHand(release.APIServer) +
			"); then apply again.",
	}
}
