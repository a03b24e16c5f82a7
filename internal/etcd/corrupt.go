package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// errDoubt: members hold different data, and nothing here may decide whose is right.
var errDoubt = errors.New("it cannot be told whose data is right")

// corruptNext is what a person can do where nothing may be decided for them.
const corruptNext = "compare the members (etcdctl endpoint hashkv --cluster, on one of them: those with the same hash at the same revision agree); " +
	"destroy those whose data is wrong, one at a time, or, when no majority agrees, restore a snapshot; " +
	"when all agree the alarm was false: etcdctl alarm disarm; then apply again"

// MayReplaceCorrupt says why a member with the CORRUPT alarm may not be given
// the data of the others now, or nil. That is a removal and a join; beyond the
// rules of those, two others have to vouch for each other: etcd's periodic
// check compares followers with the leader and accuses the follower, also
// where it is the leader who is wrong.
func MayReplaceCorrupt(v View, id uint64) error {
	target, ok := v.member(id)
	if !ok {
		return errNotListed
	}
	if !target.Learner && len(v.voters()) < 3 {
		return fmt.Errorf("%w: there are no two other voters that could vouch for each other", errDoubt)
	}
	return MayRemove(v, id)
}

// hopeless reports whether a refusal is one that no waiting can lift.
func hopeless(err error) bool { return errors.Is(err, errCorrupt) || errors.Is(err, errDoubt) }

// distrust prepares the removal of a member whose data is wrong: the others
// must vouch for each other, and one of them must lead. It returns false when
// it had to wait or leadership moves, and everything must be looked at again.
func (j *joining) distrust(ctx context.Context, v View, m Member) (bool, error) {
	err := MayReplaceCorrupt(v, m.ID)
	if err == nil {
		err = j.conv.vouched(ctx, j.cl.pace, except(v.voters(), m.ID))
	}
	switch {
	case err != nil && hopeless(err):
		return false, j.refuse(&v, err.Error(), corruptNext)
	case err != nil:
		return false, j.hold(ctx, &v, j.cl.pace.Patience, err)
	case !j.aside:
		j.aside = true
		return false, j.s.outageBegins(ctx) // Create says when it has ended
	case v.Leader == m.ID:
		return false, handOver(ctx, j.conv, v, &m)
	}
	return true, nil
}

// vouched compares the data of those among the members that are healthy.
func (c *conversation) vouched(ctx context.Context, p pace, members []Member) error {
	var asked []Member
	for _, m := range members {
		if m.Healthy {
			asked = append(asked, m)
		}
	}
	if len(asked) == 0 {
		return errNoAnswer
	}
	var difference string
	done, err := until(ctx, p.Poll, p.Patience, func() (bool, error) {
		var comparable bool
		var err error
		difference, comparable, err = c.compare(ctx, asked)
		return comparable, err
	})
	switch {
	case err != nil:
		return err
	case !done:
		return fmt.Errorf("%w: the members do not come to one revision at which they could be compared", errDoubt)
	case difference != "":
		return fmt.Errorf("%w: %s", errDoubt, difference)
	}
	return nil
}

// forgettable are the orphaned alarms that have lost their cause: no member
// that is left is CORRUPT, every database has room. The data is compared
// before it is believed.
func forgettable(v View) []Alarm {
	var out []Alarm
	voters := v.voters()
	if len(v.raised(alarmCorrupt)) == 0 && !v.unnamed() && healthy(voters) >= quorum(len(voters)) {
		out = append(out, v.orphaned(alarmCorrupt)...)
	}
	if len(v.cramped()) == 0 {
		out = append(out, v.orphaned(alarmSpace)...)
	}
	return out
}

// forget disarms orphaned alarms. Before the first, when one says that data is
// wrong, the members are compared.
func (c *conversation) forget(ctx context.Context, p pace, v View, alarms []Alarm) error {
	if slices.ContainsFunc(alarms, func(a Alarm) bool { return a.Name == alarmCorrupt }) {
		if err := c.vouched(ctx, p, v.voters()); err != nil {
			return fmt.Errorf("the alarm of a member that has left is not disarmed: %w", err)
		}
	}
	for _, a := range alarms {
		if err := c.viaVoter(ctx, v, 0, func(address string) error { return c.disarm(ctx, address, a) }); err != nil {
			return fmt.Errorf("disarm %s of member %x: %w", a.Name, a.Member, err)
		}
		problem.Progress(ctx, "etcd: disarmed the alarm %s of member %x, which the cluster no longer lists", a.Name, a.Member)
	}
	return nil
}
