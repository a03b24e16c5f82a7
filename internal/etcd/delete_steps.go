package etcd

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/wait"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// withVerdict returns v. If the removal depends on whether this member is dead, v has it
// marked as dead once that is certain.
func (l *removal) withVerdict(ctx context.Context, v membership.View) (membership.View, error) {
	v = l.verdict.Mark(v, l.cl.verdictLasts())
	m, listed := v.ByPeerURL(l.s.PeerURL())
	if !listed || m.Learner || m.Healthy || m.Dead || membership.MayRemove(v, m.ID) == nil ||
		membership.MayRemove(v.WithDead(m.ID), m.ID) != nil {
		return v, nil
	}
	d, err := l.cl.examine(ctx, l.s, m)
	if err != nil {
		return v, err
	}
	l.verdict = d
	return d.Mark(v, l.cl.verdictLasts()), nil
}

// remove hands leadership over, or, if that is done or the member cannot be asked to, removes
// the member through another one. The next observation shows the result.
func (l *removal) remove(ctx context.Context, v membership.View, id uint64) error {
	entry, _ := v.Member(id)
	clients, err := l.cl.connect(l.s)
	if err != nil {
		return err
	}
	defer clients.Close()
	if membership.HandsOver(v, id) {
		err := handOver(ctx, clients, v, &entry)
		if errors.Is(err, errStillLeads) {
			return l.again(ctx, &l.moving, v, err)
		}
		l.moving.End()
		return err
	}
	l.moving.End()
	if saved, err := l.cl.savedBeforeShrinkage(ctx, l.s, v, entry); err != nil {
		return refusedBy(err, "etcd member not deleted", l.s, &v, err.Error(), problem.Nothing,
			nextUnlessEnded(ctx, "free space on the machine of the remaining member, or repair it, then destroy again",
				"destroy again"))
	} else if !saved {
		return nil // saving takes time: observe again
	}
	err = removeMember(ctx, clients, l.s, v, id)
	switch {
	case err == nil || client.SameError(err, rpctypes.ErrMemberNotFound):
		l.removed = true
		l.turn.Free()
		l.cl.noteExists("the removal of member " + l.s.Name)
		problem.Progress(ctx, "etcd %s: removed member %x from the cluster", l.s.Name, id)
		l.disarmAlarms(ctx, clients, entry)
		return nil
	case client.Transient(err):
		return l.again(ctx, &l.removing, v, err)
	}
	return l.refused(v, err)
}

// again waits a moment before another attempt, and refuses when the attempts have failed for too long.
func (l *removal) again(ctx context.Context, since *wait.Clock, v membership.View, cause error) error {
	if since.Begin(l.turn); since.Lasted() < l.cl.pace.StallTimeout {
		return l.wait(ctx, leaveDecision{Reason: cause.Error()})
	}
	return l.refused(v, cause)
}

func (l *removal) refused(v membership.View, err error) error {
	cause := "the cluster refused the removal: " + err.Error()
	if errors.Is(err, errStillLeads) {
		cause = err.Error()
	}
	return &problem.Problem{
		Summary: "etcd member not deleted", Host: l.s.Label(), Cause: cause, Err: err,
		Unchanged: problem.Nothing, Next: "check the logs of the members, then destroy again", Detail: v.String(),
	}
}

// clean stops the unit, archives or wipes the data, and removes what Create has made.
// Other content of the data directory, such as an operator's copy, is archived or wiped
// together with the data.
func (l *removal) clean(ctx context.Context, keep bool) error {
	applied, err := l.cl.machine(l.s.Host).Change(ctx, host.Change{}, l.s.ClearAction(l.self, keep))
	if err != nil {
		return &problem.Problem{
			Summary: "etcd member not cleaned up", Host: l.s.Label(), Cause: err.Error(), Err: err,
			Unchanged: "the other members; this member was removed from the cluster.",
			Next:      "destroy again: completed steps are skipped",
		}
	}
	if dir := machine.ArchivedAs(applied.Output, l.s.Name); dir != "" {
		problem.Progress(ctx, "etcd %s: archived in %s", l.s.Name, dir)
	}
	if l.s.Volume != nil {
		problem.Progress(ctx, "etcd %s: its volume %s is unmounted; what was not wiped stays there, and never votes again",
			l.s.Name, l.s.Volume.Name())
	}
	if l.self.HasNode() {
		if err := machine.RemoveNode(ctx, l.s.Spec); err != nil {
			return err
		}
	}
	problem.Progress(ctx, "etcd %s: removed from the machine", l.s.Name)
	return nil
}

// last stops the only member. This ends the cluster, so a snapshot with its integrity hash
// is saved in the archive first, even if the data is wiped. If the database is damaged,
// the data directory itself is archived, or the member stays. If there is no room for the
// snapshot, the member stays too.
func (l *removal) last(ctx context.Context, v membership.View, id uint64) error {
	entry, _ := v.Member(id)
	place, err := machine.LastPlace(ctx, l.cl.machine(l.s.Host), l.s.Spec, entry.DBSize)
	if err != nil {
		return refusedBy(err, "etcd member not deleted", l.s, &v,
			"it is the last voting member, and its final snapshot cannot be saved: "+err.Error(), problem.Nothing,
			nextUnlessEnded(ctx, "free space there (for example by removing older archives), then destroy again",
				"destroy again"))
	}
	l.cl.noteExists("the removal of the last member, " + l.s.Name)
	problem.Progress(ctx, "etcd %s: last member: saving a final snapshot", l.s.Name)
	saved, err := l.snapshot(ctx, place)
	switch {
	case err == nil:
		problem.Progress(ctx, "etcd %s: saved and verified the final snapshot (%s, revision %d)", l.s.Name,
			membership.Bytes(saved.Size), saved.Revision)
	case ctx.Err() != nil:
		return fmt.Errorf("save the final snapshot of %s: %w", l.s.Label(), err)
	case l.s.OnDestroy == machine.Wipe:
		return &problem.Problem{
			Summary: "etcd member not deleted", Host: l.s.Label(), Err: err,
			Unchanged: "the member still serves, and its data was not changed.",
			Cause:     "it is the last voting member, and no verified snapshot could be saved: " + err.Error(),
			Next: `fix the cause and destroy again; or set on_destroy = "archive" and apply, ` +
				`which keeps its data directory instead`,
		}
	default:
		problem.Progress(ctx, "etcd %s: no snapshot could be saved, the data directory is archived without one: %s", l.s.Name,
			err)
	}
	return l.clean(ctx, false)
}

// snapshot saves the last snapshot in a directory.
func (l *removal) snapshot(ctx context.Context, dir string) (snapshot.Saved, error) {
	m := l.cl.machine(l.s.Host)
	a := machine.Action{
		Verb: machine.SaveSnapshot, DataDir: l.s.Directory(), Member: l.s.Name,
		Save: snapshot.Save{
			Dir: dir, File: machine.LastSnapshot, ClientURL: l.s.ClientURL(),
			Tools: machine.ArtifactDir(l.s.Version),
		},
	}
	if at, _, err := machine.Identify(ctx, m, l.s.Bundle.ClusterID); err == nil {
		a.Save.Tools = at.Tools // those of the running version
	}
	return l.cl.snapshot(ctx, m, l.s.Label(), a)
}

// disarmAlarms disarms the alarms of a member that was just removed, so that they do not
// block the writes of the remaining members. If that is not possible now, the next Update
// of one of those does it.
func (l *removal) disarmAlarms(ctx context.Context, clients *client.Clients, gone membership.Member) {
	if len(gone.Alarms) == 0 {
		return
	}
	v, err := clients.View(ctx, l.cl.addresses(l.s))
	if err == nil {
		err = disarmAfterComparison(ctx, clients, l.cl.pace, v.WithQuota(l.s.Quota()),
			membership.Disarmable(v.WithQuota(l.s.Quota())))
	}
	if err != nil {
		problem.Progress(ctx, "etcd %s: the next apply disarms its alarms: %s", l.s.Name, err)
	}
}
