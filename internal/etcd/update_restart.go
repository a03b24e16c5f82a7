package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/wait"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// readyToRestart reports whether the member may be restarted now. If not, it has waited a
// moment or let others go first.
func (c *updating) readyToRestart(ctx context.Context, v *membership.View) (bool, error) {
	if v == nil {
		// Without a quorum, starting a member that is not serving loses nothing.
		if c.f.Unit.Active != "active" {
			return true, nil
		}
		return false, c.waitOrRefuse(ctx, nil, client.ErrNoAnswer)
	}
	entry := machine.EntryOf(v, c.s.Spec)
	handsOver := membership.HandsOver(*v, entry.ID)
	if waiting, quiet := c.turn.Others(); handsOver {
		awaited := rotationStatusOf(c.s, c.f).obstacle(c.s.Generation()) != nil
		if waiting > 0 && !awaited {
			c.since.End()
			return false, c.turn.Yield(ctx) // followers first
		}
		if quiet < c.cl.pace.BatchWindow {
			return false, wait.Pause(ctx, c.cl.pace.Poll)
		}
	}
	if err := c.cl.mayRestart(ctx, c.s, *v, *entry); err != nil {
		return false, c.waitOrRefuse(ctx, v, err)
	}
	c.since.End()
	if waited, err := c.settle(ctx, *v, entry.ID); waited || err != nil {
		return false, err
	}
	if entry.Healthy {
		if err := c.makeReplaySafe(ctx, *v, *entry); err != nil {
			return false, err
		}
	}
	if !handsOver {
		c.moving.End()
		return true, nil
	}
	err := handOver(ctx, c.clients, *v, entry)
	if errors.Is(err, errStillLeads) {
		over, ended := c.cl.waitForAttempt(ctx, c.turn, &c.moving)
		if over {
			ended = c.refuseRestart(v, err)
		}
		return false, ended
	}
	c.moving.End()
	return false, err
}

// waitOrRefuse waits a moment, and refuses when the waiting time or the deadline is over.
// A wait that has just timed out for one member is not repeated for the next one.
func (c *updating) waitOrRefuse(ctx context.Context, v *membership.View, cause error) error {
	over, err := c.cl.waitForRules(ctx, v, c.turn, &c.since)
	if !over {
		return err
	}
	return c.refuseRestart(v, cause)
}

func (c *updating) refuseRestart(v *membership.View, cause error) error {
	if c.step.due() {
		return c.notUpgraded(v, cause.Error(), c.upgradeBlockedNext(cause))
	}
	return refusal("etcd member not restarted", c.s, v, cause.Error(), problem.Nothing,
		"recover the unhealthy members or destroy the dead ones, then apply again")
}

// waitForRules waits a moment until the rules may allow a change, and longer for members that answer. Others have their
// turn meanwhile: one of them may be the member that is waited for. over means that it takes too long, here or recently
// for another member. v is nil if no member answers.
func (cl *cluster) waitForRules(
	ctx context.Context, v *membership.View, turn *wait.Turn, since *wait.Clock,
) (over bool, err error) {
	since.Begin(turn)
	limit := cl.pace.ConditionTimeout
	if v != nil && v.Answering() {
		limit = max(limit, cl.pace.StallTimeout)
	}
	cl.mu.Lock()
	over = time.Since(cl.lastWaitTimeout) < cl.pace.ConditionTimeout
	if since.Lasted() > limit {
		over, cl.lastWaitTimeout = true, time.Now()
	}
	cl.mu.Unlock()
	if over {
		return true, nil
	}
	return cl.pause(ctx, turn)
}

// waitForAttempt waits a moment before an attempt that has failed is made again. over means that they have failed for
// too long, by their own clock.
func (cl *cluster) waitForAttempt(ctx context.Context, turn *wait.Turn, since *wait.Clock) (over bool, err error) {
	if since.Begin(turn); since.Lasted() > cl.pace.StallTimeout {
		return true, nil
	}
	return cl.pause(ctx, turn)
}

// pause waits a moment, in which others have their turn. over means that the time of the operation is.
func (cl *cluster) pause(ctx context.Context, turn *wait.Turn) (over bool, err error) {
	if wait.Pause(ctx, 5*cl.pace.Poll) != nil {
		return true, nil
	}
	if waiting, _ := turn.Others(); waiting > 0 {
		return false, turn.Yield(ctx)
	}
	return false, nil
}

// upgradeBlockedNext returns the next step for what blocks the start of an upgrade.
func (c *updating) upgradeBlockedNext(cause error) string {
	before := fmt.Sprintf("set version back to %s", c.step.From)
	switch {
	case errors.Is(cause, membership.ErrAlarm):
		return before + " and apply, which clears the alarm; then change it again"
	case errors.Is(cause, client.ErrListsDiffer):
		return before + ", and replace the member whose list differs (terraform apply -replace=…); then change it again"
	case errors.Is(cause, errUnreachable):
		return "recover the machine and apply again; if it is permanently lost, " + before +
			" and destroy or replace its member first"
	}
	return "recover the named members and apply again; replace a dead one (terraform apply -replace=…) at the version " +
		"that the other members run: " + before + " first"
}

// noteRestart records that this process has just seen a member serve after it restarted it.
func (cl *cluster) noteRestart() {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	cl.restarted = time.Now()
}

// settle requires that all members are healthy for a while between two restarts by this
// process. If one stays unhealthy beyond the waiting time, only quorum (MayRestart)
// decides.
func (c *updating) settle(ctx context.Context, v membership.View, id uint64) (waited bool, err error) {
	c.cl.mu.Lock()
	last := c.cl.restarted
	c.cl.mu.Unlock()
	target, _ := v.Member(id)
	if !target.Healthy {
		return false, nil
	}
	if left := c.cl.pace.Settle - time.Since(last); left > 0 {
		return true, wait.Pause(ctx, left)
	}
	if membership.RequireAllHealthy(v) == nil {
		c.settling.End()
		return false, nil
	}
	if c.settling.Begin(c.turn); c.settling.Lasted() < c.cl.pace.ConditionTimeout {
		return true, wait.Pause(ctx, 5*c.cl.pace.Poll)
	}
	return false, nil
}

// errStillLeads means that an attempt to move leadership away has failed, and another one may succeed.
var errStillLeads = errors.New("leadership did not move")

// handOver moves leadership off a member that hands it over (membership.HandsOver). The next observation shows the
// result.
func handOver(ctx context.Context, clients *client.Clients, v membership.View, from *membership.Member) error {
	to, ok := membership.BestTransferee(v, from.ID)
	if !ok {
		return fmt.Errorf("move leadership away from %s: %w", from.Label(), membership.ErrUnhealthy)
	}
	return moveLeader(ctx, clients, *from, to)
}

// moveLeader requests the leader to hand over to another member. The caller limits how often, if the error is
// errStillLeads.
func moveLeader(ctx context.Context, clients *client.Clients, from, to membership.Member) error {
	problem.Progress(ctx, "etcd: moving leadership from %s to %s", from.Label(), to.Label())
	err := clients.MoveLeader(ctx, from.Address(), to.ID)
	switch {
	case err == nil:
		return nil
	case client.Transient(err):
		return fmt.Errorf("%w from %s to %s: %w", errStillLeads, from.Label(), to.Label(), err)
	}
	return fmt.Errorf("move leadership from %s to %s: %w", from.Label(), to.Label(), err)
}
