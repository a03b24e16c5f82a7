package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/wait"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// DeleteOptions qualify Delete.
type DeleteOptions struct {
	Abandon host.Abandoned // machines that are gone for good: nothing is done on them
	// Superseded reports whether another resource has begun to create this member in the
	// same run, for example because its key was renamed. In that case there is nothing to
	// remove any more. It is called again before each step. nil means that no resource
	// has.
	Superseded func() bool
}

func (o DeleteOptions) superseded() bool { return o.Superseded != nil && o.Superseded() }

// Delete removes the member from the cluster: it hands over leadership, removes the member
// through another member, stops it, archives or wipes its data and cleans the machine. The
// last member is stopped after a final snapshot.
func (c *Clusters) Delete(ctx context.Context, s Spec, o DeleteOptions) error {
	cl := c.of(s)
	cl.countLeaving(s.Name, +1)
	turn := cl.turns.Enter()
	defer turn.Leave()
	defer cl.countLeaving(s.Name, -1) // first: whoever has the turn next knows that Creates wait for it no longer
	if err := turn.Wait(ctx); err != nil {
		return fmt.Errorf("wait to remove etcd member %s: %w", s.Label(), err)
	}
	ctx = cl.withLease(ctx)
	l := &removal{cl: cl, s: s, o: o, turn: turn}
	for {
		done, err := l.step(ctx)
		if err != nil && !l.removed {
			err = errors.Join(err, l.endOutage(ctx)) // it stays a member
		}
		if done && err == nil {
			cl.forgetFailure(s.Name)
		}
		if done || err != nil {
			return err
		}
	}
}

// removal is the removal of one member, in its turn.
type removal struct {
	cl          *cluster
	s           Spec
	o           DeleteOptions
	turn        *wait.Turn
	since       wait.Clock              // of the wait after which the removal is refused
	late        wait.Clock              // of the wait for a late answer of the cluster
	yielding    wait.Clock              // to others that should leave before
	moving      wait.Clock              // of the attempts to move leadership away
	removing    wait.Clock              // of the attempts to remove it from the member list
	removed     bool                    // from the member list, by this call
	outageBegun bool                    // the outage was announced
	verdict     membership.DeathVerdict // on this member, if it does not answer
	reported    string                  // the reason that was last reported
	self        machine.Observed        // its machine
}

// step observes everything, decides, and takes one step.
func (l *removal) step(ctx context.Context) (done bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, fmt.Errorf("remove etcd member %s: %w", l.s.Label(), err)
	}
	if l.o.superseded() {
		return true, l.stay(ctx)
	}
	sv := l.cl.observeCluster(ctx, l.s)
	switch {
	case sv.answered:
		if err := l.cl.requireLease(ctx, l.s, sv.view); err != nil {
			return false, err
		}
		if sv.view, err = l.withVerdict(ctx, sv.view); err != nil {
			return false, err
		}
	case !errors.Is(sv.err, client.ErrNoAnswer):
		return false, sv.err
	default:
		if where := l.cl.unasked(ctx, sv); where != "" {
			return false, refusal("etcd member not deleted", l.s, nil, "whether the cluster serves cannot be asked on "+where+
				": "+host.ErrForwarding.Error(), problem.Nothing, allowForwarding(where))
		}
	}
	in := l.input(sv)
	d := decideLeave(in)
	clock := l.clockOf(d)
	if d.Kind == leaveWait {
		first := len(in.Pending) > 0 || d.Follows
		if first && (!l.outageBegun || l.removed) {
			clock.Restart(l.turn) // until they are done: they have time limits of their own
		}
		if clock.Lasted() < l.cl.pace.ConditionTimeout {
			return false, l.wait(ctx, d)
		}
		if first {
			return false, l.endOutage(ctx) // they need their turn
		}
		d.Kind = d.Otherwise
	}
	if l.o.superseded() {
		return true, l.stay(ctx)
	}
	return l.act(ctx, in, d)
}

// clockOf returns the clock of the wait that is decided, and ends those of waits that are over.
func (l *removal) clockOf(d leaveDecision) *wait.Clock {
	clock := &l.since
	switch {
	case d.Kind != leaveWait:
		l.since.End()
		l.late.End()
		return clock
	case d.Otherwise == leaveClean:
		clock = &l.late
	default:
		l.late.End()
	}
	clock.Begin(l.turn)
	return clock
}

// input returns the input of the decision.
func (l *removal) input(sv observation) leaveInput {
	in := leaveInput{
		Name: l.s.Name, PeerURL: l.s.PeerURL(), Cluster: l.s.Bundle.ClusterID, DataDir: l.s.Directory(),
		Self: sv.of(l.s), Leaving: l.cl.leavingMembers(), Abandon: l.o.Abandon, Protected: l.s.Bundle.DeletionProtected(),
	}
	in.OnVolume = in.Self.HoldsVolume(l.s.Spec) && in.Self.Volume.Identity.Has() && !in.Self.Volume.InPlace()
	creates := l.cl.arrivals()
	in.Pending, in.Following, in.Awaiting = creates.pending, creates.following, creates.awaiting
	in.Failed = slices.DeleteFunc(creates.failed, func(name string) bool { return in.Leaving[name] })
	for _, m := range sv.sorted() {
		if m.Address != l.s.Host.Address() {
			in.Others = append(in.Others, m)
		}
	}
	if sv.answered {
		in.View = &sv.view
	}
	return in
}

// stay ends a Delete whose member another resource has taken over.
func (l *removal) stay(ctx context.Context) error {
	problem.Progress(ctx, "etcd %s: another resource in this run has taken over the member; it is not removed", l.s.Name)
	return l.endOutage(ctx)
}

// endOutage ends the outage of a member that does not leave, or not yet.
func (l *removal) endOutage(ctx context.Context) error {
	if !l.outageBegun {
		return nil
	}
	l.outageBegun = false
	l.turn.Free()
	return l.s.outageEnded(ctx)
}

// wait lets others go first: this member may be waiting for the removal of another one.
func (l *removal) wait(ctx context.Context, d leaveDecision) error {
	if d.Reason != l.reported {
		l.reported = d.Reason
		problem.Progress(ctx, "etcd %s: not removed yet: %s", l.s.Name, d.Reason)
	}
	if err := wait.Pause(ctx, 5*l.cl.pace.Poll); err != nil {
		return fmt.Errorf("wait to remove etcd member %s: %w (%s)", l.s.Label(), err, d.Reason)
	}
	if waiting, _ := l.turn.Others(); waiting > 0 {
		return l.turn.Yield(ctx)
	}
	return nil
}

func (l *removal) act(ctx context.Context, in leaveInput, d leaveDecision) (bool, error) {
	l.self = in.Self
	if waiting, _ := l.turn.Others(); waiting > 0 && othersFirst(in, d) {
		if l.yielding.Begin(l.turn); l.yielding.Lasted() < l.cl.pace.ConditionTimeout {
			return false, l.turn.Yield(ctx)
		}
	}
	if (d.Kind == leaveRemove || d.Kind == leaveLast) && in.Self.Reached() && in.occupied() == "" && !l.outageBegun {
		l.outageBegun = true
		l.turn.Keep()
		return false, l.s.outageBegins(ctx) // announcing takes time: observe again
	}
	switch d.Kind {
	case leaveRemove:
		return false, l.remove(ctx, in.toLeave(), d.ID)
	case leaveLast:
		return true, l.last(ctx, *in.View, d.ID)
	case leaveClean:
		if in.Self.Data && !in.Self.Pending {
			l.cl.noteExists("the removal of member " + l.s.Name)
		}
		if in.Self.Data && d.Reason != "" {
			problem.Progress(ctx, "etcd %s: its data is archived: %s", l.s.Name, d.Reason)
		}
		return true, l.clean(ctx, d.Keep)
	case leaveOccupied:
		problem.Progress(ctx, "etcd %s: %s; the machine is not changed", l.s.Name, d.Reason)
		return true, nil
	case leaveAbandon:
		problem.Progress(ctx, "etcd %s: the machine cannot be reached and is not changed", l.s.Name)
		return true, nil
	}
	unchanged := problem.Nothing
	if l.removed {
		unchanged = "the machine; the member was removed from the cluster."
	}
	return false, refusal("etcd member not deleted", l.s, in.View, d.Reason, unchanged, d.Next)
}
