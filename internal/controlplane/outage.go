package controlplane

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/unit"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Outage is one change of an etcd member, as far as the replica beside it is
// concerned, from Open to Close. What it keeps paused it keeps until then at the
// latest, whatever way the change ends: afterwards anybody may bring it back.
type Outage struct {
	replicas *Replicas
	beside   Beside

	mu     sync.Mutex
	paused *Spec // the replica that this change has stopped
}

// Outage describes the change of the member that b is beside. It implements
// etcd.Outage.
func (r *Replicas) Outage(b Beside) *Outage { return &Outage{replicas: r, beside: b} }

// Open says that the change begins, and gives how to say that it has ended.
func (o *Outage) Open() (end func()) {
	done := o.replicas.inProgress.member(o.beside.Host.Address())
	return func() {
		o.unpause()
		done()
	}
}

// Begins takes the replica that lives on this member alone out of rotation and
// stops it, before the member stops: its API server would fail every request
// for as long as that lasts, on connections that clients keep. One with other
// members to turn to stays, and one that does not serve has nothing to lose. A
// machine that cannot be reached is no obstacle; an API server that cannot be
// asked is one.
func (o *Outage) Begins(ctx context.Context) error {
	s, state, err := o.beside.dependent(ctx)
	if s == nil || err != nil || !state.running {
		return err
	}
	serving, err := checkServing(ctx, *s)
	if err != nil || !serving {
		return err
	}
	problem.Progress(ctx, "%s: its etcd member is about to stop", s.Machine())
	way := drainOptions{stops: true, duringMember: true}
	turn, _, err := o.replicas.drain(ctx, *s, way)
	if err != nil {
		return err
	}
	defer turn.end(true)
	o.pause(*s)
	problem.Progress(ctx, "%s: stopping the components until its etcd member serves again", s.Machine())
	stop := host.Command{Script: "touch " + pausedPath + "\n" + unit.Pause(release.Components())}
	if _, err := s.Host.Run(turn.context(ctx), stop); err != nil {
		return fmt.Errorf("pause replica %s: %w", s.Machine(), err)
	}
	return nil
}

// Ended brings back what Begins has stopped, in this run or an earlier one, and
// registers it when it is ready. One that lost its member otherwise is helped to
// find it again.
func (o *Outage) Ended(ctx context.Context) error {
	s, _, err := o.beside.dependent(ctx)
	if s == nil || err != nil {
		return err
	}
	turn, err := o.replicas.turns.take(ctx, *s)
	if err != nil {
		return err
	}
	came := true
	defer func() { turn.end(came) }()
	ctx = turn.context(ctx)
	s, state, err := o.beside.dependent(ctx) // as it is now: another one may have brought it back
	if s == nil || err != nil {
		return err
	}
	if !state.paused {
		recoverAfterMember(ctx, *s, state)
		o.unpause()
		return nil // what may be wrong with it is not of this change
	}
	if err := startAndRegister(ctx, *s, release.Components()); err != nil {
		came = false
		return withRotationState(fmt.Errorf("resume replica %s: %w", s.Machine(), err), "the etcd member is done; the replica stays out of rotation until it is applied again.")
	}
	o.unpause()
	problem.Progress(ctx, "%s: back in rotation", s.Machine())
	return nil
}

// pause notes that the replica is out of rotation for this change. Until let, other
// processes change no replica of its control plane, and nobody here brings it back.
func (o *Outage) pause(s Spec) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.paused != nil {
		return
	}
	o.paused = &s
	o.replicas.turns.queue(s.Bundle.ClusterID).enter()
	o.replicas.paused.begin(s, o)
}

func (o *Outage) unpause() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.paused == nil {
		return
	}
	s := *o.paused
	o.paused = nil
	o.replicas.paused.end(s, o)
	o.replicas.turns.queue(s.Bundle.ClusterID).leave()
}

// pausedReplicas are the replicas that changes of this process keep out of rotation.
type pausedReplicas struct {
	mu  sync.Mutex
	now map[string]*Outage // by cluster id and name
}

func (p *pausedReplicas) begin(s Spec, o *Outage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now == nil {
		p.now = map[string]*Outage{}
	}
	p.now[s.Bundle.ClusterID+"/"+s.Name] = o
}

func (p *pausedReplicas) end(s Spec, o *Outage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if key := s.Bundle.ClusterID + "/" + s.Name; p.now[key] == o {
		delete(p.now, key)
	}
}

func (p *pausedReplicas) has(cluster, name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now[cluster+"/"+name] != nil
}

// servingAttempts is how often an API server that gives no answer is asked.
const servingAttempts = 3

// checkServing reports whether the replica serves. One that gives no answer is asked
// again, and is then a reason to change nothing: what is done next would stop it.
func checkServing(ctx context.Context, s Spec) (bool, error) {
	for attempt := 1; ; attempt++ {
		serving, err := serves(ctx, s)
		if err == nil || attempt == servingAttempts || ctx.Err() != nil {
			return serving, servingUnknown(s, err)
		}
		select {
		case <-time.After(askInterval):
		case <-ctx.Done():
		}
	}
}

// servingUnknown is the refusal for an API server that cannot be asked; nil for no error.
func servingUnknown(s Spec, err error) error {
	if err == nil {
		return nil
	}
	return &problem.Problem{
		Summary: "control-plane replica not stopped", Host: s.Machine(), Err: err, Unchanged: problem.Nothing,
		Cause: "cannot determine whether it is serving: " + err.Error(),
		Next:  "correct this, or stop an API server that hangs (systemctl stop " + unit.Name(release.APIServer) + "); then apply again.",
	}
}
