package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// release stops the member on the machine that it leaves, and unmounts the volume there.
func (t *taking) release(ctx context.Context) error {
	old, using := t.former()
	if !using {
		return nil // observe again
	}
	if old.Volume.Damaged { // the other machine would refuse it when the member has stopped here
		return refusal("Volume of etcd member not released", t.s, nil, "the kernel has found errors in its file system on "+
			old.Address, problem.Nothing, t.s.VolumeRemedy(old))
	}
	if err := t.check(ctx); err != nil {
		return err
	}
	if err := machine.Install(ctx, t.cl.machine(t.s.Host), t.s.Spec, t.f); err != nil {
		return err
	}
	if old.Running() {
		if ready, err := t.readyToStop(ctx, old); !ready || err != nil {
			return err
		}
		if !t.outageBegun && t.s.FormerOutage != nil {
			t.outageBegun = true
			t.turn.Keep()
			t.since.End()
			return t.s.FormerOutage.Begins(ctx) // announcing takes time: observe again
		}
	}
	problem.Progress(ctx, "etcd %s: stopping on %s, and unmounting its volume there", t.s.Name, old.Address)
	if _, err := t.cl.machine(t.s.Former).Change(ctx, host.Change{}, t.s.LeaveAction(old)); err != nil {
		return &problem.Problem{
			Summary: "Volume of etcd member " + t.s.Label() + " not released", Host: old.Address, Cause: err.Error(), Err: err,
			Unchanged: "the data. The member may be stopped on " + old.Address + " by now.",
			Next: "fix this there, then apply again: the member starts on " + t.s.Host.Address() +
				" when its volume is free",
		}
	}
	t.released = old.Address
	return nil
}

// readyToStop reports whether the member on the machine that it leaves may stop now. If not, it has waited a moment.
func (t *taking) readyToStop(ctx context.Context, old machine.Observed) (bool, error) {
	clients, err := t.cl.connect(t.s)
	if err != nil {
		return false, err
	}
	defer clients.Close()
	v, err := t.cl.observeToChange(ctx, clients, t.s)
	if errors.Is(err, client.ErrNoAnswer) {
		return false, t.waitOrRefuse(ctx, nil, err)
	}
	if err != nil {
		return false, err
	}
	entry, listed := v.ByPeerURL(membership.PeerURL(old.Address))
	if !listed { // it was removed, so nobody needs it there
		return true, nil
	}
	if err := t.cl.mayRestart(ctx, t.s, v, entry); err != nil {
		return false, t.waitOrRefuse(ctx, &v, err)
	}
	if entry.Healthy {
		leaving := &updating{cl: t.cl, s: t.s, turn: t.turn, clients: clients, f: old}
		leaving.s.Host = t.s.Former
		if err := leaving.makeReplaySafe(ctx, v, entry); err != nil {
			return false, err
		}
	}
	if membership.HandsOver(v, entry.ID) {
		return false, t.handOver(ctx, clients, v, entry)
	}
	return true, nil
}

// handOver moves leadership off the member on the machine that it leaves.
func (t *taking) handOver(
	ctx context.Context, clients *client.Clients, v membership.View, entry membership.Member,
) error {
	err := handOver(ctx, clients, v, &entry)
	if errors.Is(err, errStillLeads) {
		over, ended := t.cl.waitForAttempt(ctx, t.turn, &t.moving)
		if over {
			ended = t.notMoved(&v, err)
		}
		return ended
	}
	t.moving.End()
	return err
}

func (t *taking) waitOrRefuse(ctx context.Context, v *membership.View, cause error) error {
	over, err := t.cl.waitForRules(ctx, v, t.turn, &t.since)
	if !over {
		return err
	}
	return t.notMoved(v, cause)
}

func (t *taking) notMoved(v *membership.View, cause error) error {
	return refusal("etcd member not moved", t.s, v, cause.Error(), problem.Nothing,
		"recover the unhealthy members or replace the dead ones, then apply again")
}

// move changes the peer URL of the member whose volume the machine has.
func (j *joining) move(ctx context.Context, v membership.View, next membership.JoinStep) error {
	problem.Progress(ctx, "etcd %s: its address becomes %s: %s", j.s.Name, j.s.Host.Address(), next.Reason)
	err := j.clients.ViaVoter(ctx, v, 0, func(address string) error {
		return setPeerURL(ctx, j.clients, address, v, next.ID, j.s.PeerURL())
	})
	switch {
	case err == nil:
		j.changed = true
		return nil
	case client.Transient(err) || client.SameError(err, rpctypes.ErrUnhealthy):
		return j.waitOrRefuse(ctx, &v, j.cl.pace.StallTimeout, err)
	}
	return &problem.Problem{
		Summary: "etcd member not moved", Host: j.s.Label(), Err: err, Detail: v.String(),
		Cause:     "the cluster refused the new address of the member: " + err.Error(),
		Unchanged: "the member list. The volume is mounted on the new machine, and etcd does not run there.",
		Next:      "check the logs of the members, then apply again",
	}
}

// setPeerURL requests the member at an address to change the peer URL of a voter. It refuses one that is a learner in
// v, whose record etcd would corrupt (etcd-io/etcd#21694).
func setPeerURL(
	ctx context.Context, clients *client.Clients, address string, v membership.View, id uint64, url string,
) error {
	if entry, listed := v.Member(id); !listed || entry.Learner {
		return fmt.Errorf("member %x is no voter", id)
	}
	return clients.UpdatePeerURL(ctx, address, id, url)
}

// startAction starts a member whose identity was just written. Its volume is mounted again, so that the identity is not
// only in the log of the file system, which a machine that looks at the volume does not replay.
func (s Spec) startAction(timers host.Script) machine.Action {
	return machine.Action{
		Verb: machine.Start, DataDir: s.Directory(), Remount: s.Volume != nil, Timers: timers,
	}
}

// listedElsewhere reports whether the cluster lists the member that serves on its volume at another address.
func (cl *cluster) listedElsewhere(ctx context.Context, s Spec) bool {
	if s.Volume == nil {
		return false
	}
	f := cl.observe(ctx, s, s.Name, s.Host)
	v, err := cl.view(ctx, s)
	_, listed := v.Member(f.MemberID())
	return err == nil && listed && machine.EntryOf(&v, s.Spec) == nil
}

// startOnVolume starts an established member whose volume has come to a machine that has nothing else of it.
func (cl *cluster) startOnVolume(ctx context.Context, s Spec, f machine.Observed) error {
	m := cl.machine(s.Host)
	if err := machine.Install(ctx, m, s.Spec, f); err != nil {
		return err
	}
	c, err := machine.Certificates(s.Spec, f, time.Now())
	if err != nil {
		return err
	}
	change, timers := machine.StartOnVolumeChange(s.Spec, f, c)
	if _, err := m.Change(ctx, change, s.startAction(timers)); err != nil {
		return fmt.Errorf("start etcd on %s: %w", s.Label(), err)
	}
	return nil
}

// clearFormer removes what is left of the member, its keys among it, from the machine that it has left. A machine that
// does not answer is gone, or it finds no volume.
func (cl *cluster) clearFormer(ctx context.Context, s Spec) error {
	if s.Volume == nil || s.Former == nil {
		return nil
	}
	old := cl.observeInTime(ctx, s, s.Name, s.Former)
	switch {
	case !old.Reached():
		problem.Progress(ctx, "etcd %s: its former machine %s does not answer and is not changed: %s", s.Name, old.Address,
			old.Err)
		return nil
	case !s.wasOn(old) || usesVolume(old):
		return nil
	}
	if _, err := cl.machine(s.Former).Change(ctx, host.Change{}, s.ArchiveAction(machine.Clear, true)); err != nil {
		return &problem.Problem{
			Summary: "Former machine of etcd member not cleaned up", Host: old.Address, Cause: err.Error(), Err: err,
			Unchanged: "the member, which serves on its new machine.", Next: "apply again: completed steps are skipped",
		}
	}
	return nil
}
