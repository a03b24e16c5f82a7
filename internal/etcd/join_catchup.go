package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/wait"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/poll"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// promoteEvery is the interval of promotion attempts, the same as kubeadm's.
const promoteEvery = 500 * time.Millisecond

// makesProgress reports whether the started member makes progress. It records a sample of
// the member in v.
func (j *joining) makesProgress(ctx context.Context, v *membership.View, id uint64) bool {
	if j.catchUp == nil {
		j.catchUp = j.cl.watchProgress(j.s, id, []string{j.me.PeerURL}, j.turn.Held)
	}
	j.catchUp.Sample(ctx, v)
	return !j.catchUp.Stuck()
}

// wait waits until the started member serves.
func (j *joining) wait(ctx context.Context, v membership.View, id uint64) error {
	entry, _ := v.Member(id)
	j.refused.End() // what was waited for before has cleared
	if !j.makesProgress(ctx, &v, id) {
		return j.cl.notServing(ctx, j.s, fmt.Errorf("%w, and %s: it %s", machine.ErrNotServing, j.catchUp.StalledText(),
			cmp.Or(entry.Trouble, "answers, and has no data in "+j.s.Directory())))
	}
	if err := wait.Pause(ctx, j.cl.pace.Poll); err != nil || !entry.Healthy {
		return err
	}
	return j.observe(ctx) // it has made its data directory by now
}

// promote asks the voters, never the learner itself (kubeadm#3287), to promote the
// learner. If it is not in sync yet, the promotion is tried again as long as it makes
// progress.
func (j *joining) promote(ctx context.Context, v membership.View, id uint64) error {
	j.progressed()
	err := j.clients.ViaVoter(ctx, v, id, func(address string) error { return j.clients.Promote(ctx, address, id) })
	switch {
	case err == nil || client.SameError(err, rpctypes.ErrMemberNotLearner):
		j.cl.sizeChanged()
		problem.Progress(ctx, "etcd %s: promoted to voter", j.s.Name)
		return nil
	case !client.Transient(err):
		return fmt.Errorf("promote etcd member %s: %w", j.s.Label(), err)
	case !j.makesProgress(ctx, &v, id):
		return j.refuse(&v, fmt.Sprintf("the learner is not promoted, and %s: %s", j.catchUp.StalledText(), err),
			"check its log ("+j.s.LogCommand()+") and the network between the members, then apply again")
	}
	return wait.Pause(ctx, promoteEvery)
}

// waitForLearner waits for another member that is still joining, as long as that member
// makes progress and the process that added it may still promote it.
func (j *joining) waitForLearner(
	ctx context.Context, v *membership.View, learner membership.Member, cause error,
) error {
	if j.ahead == nil || j.ahead.Id != learner.ID {
		j.ahead = j.cl.watchProgress(j.s, learner.ID, learner.PeerURLs, j.turn.Held)
		problem.Progress(ctx, "etcd %s: waiting: %s", j.s.Name, cause)
	}
	j.turn.Free() // its own Create may have to promote it
	j.ahead.Sample(ctx, v)
	if j.ahead.Stuck() {
		return j.refuseAfterWait(v, fmt.Errorf("%w, and %s", cause, j.ahead.StalledText()))
	}
	return j.yieldOrWait(ctx, v, cause)
}

// afterFailure cleans up after a failed join and returns the error. A learner that was
// still catching up at the caller's deadline stays: it has no vote, other joins wait for
// it as for any learner, etcd continues to replicate by itself, and the next Create
// continues with the data it has by then. The error is ErrAdopted, so that the learner is
// not removed in the meantime. A learner stays too if the lease is lost: another process may
// be promoting it. Any other learner is removed.
func (j *joining) afterFailure(ctx context.Context, err error) error {
	if ctx.Err() == nil || !j.catchUp.Moving() {
		if !errors.Is(err, host.ErrLeaseLost) {
			j.undo(ctx)
		}
		return err
	}
	return &problem.Problem{
		Summary: "etcd member is still catching up", Host: j.s.Label(), Err: fmt.Errorf("%w: %w", ErrAdopted, err),
		Cause: fmt.Sprintf("the operation timed out (%s); the member had received %s and was still receiving data",
			ctx.Err(), membership.Bytes(j.catchUp.BytesOnDisk())),
		Unchanged: "the other members and their data; this member stays a learner, which has no vote, " +
			"and continues to replicate.",
		Next: "apply again to continue; if the operation times out again, raise the timeouts of this resource",
	}
}

// undo removes the learner that this call has added and that did not become a voter, so
// that no half-joined member blocks the next change (kubernetes/kubeadm#3269). It has its
// own time limit, because the caller's deadline may have passed. Like every change it needs
// the lease. What it cannot undo, the next Create does first.
func (j *joining) undo(ctx context.Context) {
	if j.added == 0 {
		return
	}
	fresh, cancel := context.WithTimeout(context.WithoutCancel(ctx), j.cl.pace.Cleanup)
	defer cancel()
	_, err := poll.Until(fresh, 5*j.cl.pace.Poll, j.cl.pace.Cleanup, func() (bool, error) {
		v, err := j.clients.View(fresh, j.cl.addresses(j.s))
		if err != nil {
			return false, nil
		}
		if err := j.cl.requireLease(fresh, j.s, v); err != nil {
			return false, err
		}
		entry, listed := v.Member(j.added)
		if listed && !entry.Learner {
			return true, nil // the promotion had succeeded: a voter stays
		}
		if listed {
			err := j.clients.ViaVoter(fresh, v, j.added, func(address string) error {
				return j.clients.Remove(fresh, address, j.added)
			})
			if err != nil && !client.SameError(err, rpctypes.ErrMemberNotFound) {
				return false, nil
			}
		}
		return true, machine.ArchiveData(fresh, j.cl.machine(j.s.Host), j.s.Spec)
	})
	if err != nil {
		problem.Progress(ctx, "etcd %s: the failed join could not be undone; the next apply undoes it: %s", j.s.Name, err)
	}
}
