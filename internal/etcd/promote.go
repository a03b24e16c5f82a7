package etcd

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// promoteEvery is the pace of promotion attempts: kubeadm's.
const promoteEvery = 500 * time.Millisecond

// promote asks the voters, never the learner itself (kubeadm#3287), until the
// learner is in sync and promoted.
func (j *joining) promote(ctx context.Context, v View, id uint64) error {
	j.moved()
	alive := time.Now()
	var last error
	done, err := until(ctx, promoteEvery, j.cl.pace.Sync, func() (bool, error) {
		last = j.conv.viaVoter(ctx, v, id, func(address string) error { return j.conv.promote(ctx, address, id) })
		switch {
		case last == nil || sameError(last, rpctypes.ErrMemberNotLearner):
			return true, nil
		case !transient(last):
			return false, fmt.Errorf("promote etcd member %s: %w", j.s.label(), last)
		}
		if _, err := j.conv.status(ctx, j.s.Host.Address()); err == nil {
			alive = time.Now()
		} else if time.Since(alive) > j.cl.pace.Serving {
			return false, j.cl.stuck(ctx, j.s, err.Error(), nil)
		}
		return false, nil
	})
	if err != nil {
		return err
	}
	if !done {
		return j.refuse(&v, fmt.Sprintf("the learner was not in sync after %s: %v", j.cl.pace.Sync, last), "look at its log (journalctl -u "+unitName+") and at the network between the members, then apply again")
	}
	problem.Progress(ctx, "etcd %s: promoted to voter", j.s.Name)
	return nil
}

// undo takes back the learner that this call has added and that did not become
// a voter, so that no half-joined member blocks the next change
// (kubernetes/kubeadm#3269). It has time of its own: the caller's may be over.
// What it cannot undo, the next Create does first.
func (j *joining) undo(ctx context.Context) {
	if j.added == 0 {
		return
	}
	fresh, cancel := context.WithTimeout(context.WithoutCancel(ctx), j.cl.pace.Cleanup)
	defer cancel()
	_, err := until(fresh, 5*j.cl.pace.Poll, j.cl.pace.Cleanup, func() (bool, error) {
		v, err := j.conv.view(fresh, j.cl.addresses(j.s))
		if err != nil {
			return false, nil
		}
		entry, listed := v.member(j.added)
		if listed && !entry.Learner {
			return true, nil // the promotion had succeeded: a voter stays
		}
		if listed {
			err := j.conv.viaVoter(fresh, v, j.added, func(address string) error { return j.conv.remove(fresh, address, j.added) })
			if err != nil && !sameError(err, rpctypes.ErrMemberNotFound) {
				return false, nil
			}
		}
		return true, j.cl.retire(fresh, j.s)
	})
	if err != nil {
		problem.Progress(ctx, "etcd %s: the failed join could not be undone, the next apply will do it: %s", j.s.Name, err)
	}
}

// viaVoter runs f against healthy voters, the leader first, until one takes
// it. Another voter is only tried when the one before could not be talked to.
func (c *conversation) viaVoter(ctx context.Context, v View, not uint64, f func(address string) error) error {
	voters := slices.DeleteFunc(except(v.voters(), not), func(m Member) bool { return !m.Healthy })
	slices.SortStableFunc(voters, func(a, b Member) int {
		switch v.Leader {
		case a.ID:
			return -1
		case b.ID:
			return 1
		}
		return 0
	})
	err := errNoAnswer
	for _, m := range voters {
		if err = f(m.address()); err == nil || !unavailable(err) || ctx.Err() != nil {
			return err
		}
	}
	return err
}
