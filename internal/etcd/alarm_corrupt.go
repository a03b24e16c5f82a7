package etcd

import (
	"context"
	"fmt"
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/wait"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// corruptNext is the next step for cases that the provider must not decide.
const corruptNext = "compare the members (run etcdctl endpoint hashkv --cluster on one of them: members with the same hash at the same revision have the same data); " +
	"destroy the members with the wrong data, one at a time, or restore a snapshot if no majority has the same data; " +
	"if all members have the same data, the alarm is obsolete: run etcdctl alarm disarm; then apply again"

// prepareCorruptRemoval prepares the removal of a member with corrupt data: the other
// members must have identical data, and one of them must be the leader. It returns false
// when it had to wait or is moving leadership; the caller then observes everything again.
func (j *joining) prepareCorruptRemoval(ctx context.Context, v membership.View, m membership.Member) (bool, error) {
	err := membership.MayReplaceCorrupt(v, m.ID)
	if err == nil {
		err = requireSameData(ctx, j.clients, j.cl.pace, membership.Except(v.Voters(), m.ID))
	}
	switch {
	case err != nil && membership.NeedsDecision(err):
		return false, j.refuse(&v, err.Error(), corruptNext)
	case err != nil:
		return false, j.waitOrRefuse(ctx, &v, j.cl.pace.ConditionTimeout, err)
	case !j.outageBegun:
		j.outageBegun = true
		return false, j.s.outageBegins(ctx) // Create reports its end
	case v.Leader == m.ID:
		return false, handOver(ctx, j.clients, v, &m)
	}
	return true, nil
}

// requireSameData compares the data of the healthy ones among members.
func requireSameData(ctx context.Context, c *client.Clients, p pace, members []membership.Member) error {
	var asked []membership.Member
	for _, m := range members {
		if m.Healthy {
			asked = append(asked, m)
		}
	}
	if len(asked) == 0 {
		return client.ErrNoAnswer
	}
	var difference string
	done, err := wait.Until(ctx, p.Poll, p.ConditionTimeout, func() (bool, error) {
		var comparable bool
		var err error
		difference, comparable, err = c.CompareData(ctx, asked)
		return comparable, err
	})
	switch {
	case err != nil:
		return err
	case !done:
		return fmt.Errorf("%w: the members did not reach a common revision at which their data could be compared", membership.ErrAmbiguous)
	case difference != "":
		return fmt.Errorf("%w: %s", membership.ErrAmbiguous, difference)
	}
	return nil
}

// disarmOrphans disarms orphaned alarms. Before it disarms the first one, it compares the
// data of the members if any of the alarms is CORRUPT.
func disarmOrphans(ctx context.Context, c *client.Clients, p pace, v membership.View, alarms []membership.Alarm) error {
	if slices.ContainsFunc(alarms, func(a membership.Alarm) bool { return a.Name == membership.AlarmCorrupt }) {
		if err := requireSameData(ctx, c, p, v.Voters()); err != nil {
			return fmt.Errorf("the alarm of a removed member was not disarmed: %w", err)
		}
	}
	for _, a := range alarms {
		if err := c.ViaVoter(ctx, v, 0, func(address string) error { return c.Disarm(ctx, address, a) }); err != nil {
			return fmt.Errorf("disarm %s of member %x: %w", a.Name, a.Member, err)
		}
		problem.Progress(ctx, "etcd: disarmed alarm %s of member %x, which the cluster no longer lists", a.Name, a.Member)
	}
	return nil
}
