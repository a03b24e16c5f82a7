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
	"github.com/kubequorum/terraform-provider-kube/internal/poll"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// alarmRepair handles the alarms of one member during its Update, in its turn.
type alarmRepair struct {
	cl       *cluster
	s        Spec
	turn     *wait.Turn
	clients  *client.Clients
	attempts membership.SpaceAttempts
	outage   *openOutage // was announced, so its end must be announced too; nil: none
	acted    bool        // a member was compacted or defragmented, or an alarm was disarmed
	since    wait.Clock  // of the wait for the rules

	summary string // of a refusal
	kept    string // what a refusal after a first step leaves unchanged
	next    string // the next step after a wait that timed out
}

func newAlarmRepair(cl *cluster, s Spec, turn *wait.Turn, clients *client.Clients) *alarmRepair {
	return &alarmRepair{
		cl: cl, s: s, turn: turn, clients: clients, summary: "etcd alarm not cleared",
		kept:     "all keys; the alarm is still raised.",
		attempts: membership.SpaceAttempts{Compacted: map[uint64]bool{}, Defragmented: map[uint64]bool{}},
		next: "recover the unhealthy members or destroy the dead ones, repair those with the CORRUPT alarm, then apply " +
			"again",
	}
}

// HasAlarm reports whether an alarm is raised that the Update of the member with this
// entry must handle.
func HasAlarm(v *membership.View, entry *membership.Member) bool {
	return v != nil && (len(v.Orphans) > 0 || entry != nil && len(entry.Alarms) > 0)
}

// updateAndRepair brings an established member to its spec and repairs the alarms it can.
// CORRUPT comes first, because restarts are refused while it is raised. Then come the
// differences on the machine, one of which may be a quota that was too small. NOSPACE
// comes last.
func (cl *cluster) updateAndRepair(ctx context.Context, turn *wait.Turn, s Spec) (Status, error) {
	clients, err := cl.connect(s)
	if err != nil {
		return Status{}, err
	}
	defer clients.Close()
	m := newAlarmRepair(cl, s, turn, clients)
	if err := m.disarmOrphans(ctx); err != nil {
		return Status{}, err
	}
	status, err := cl.converge(ctx, turn, s)
	if err != nil {
		return Status{}, err
	}
	err = m.repairSpace(ctx)
	if err = errors.Join(err, m.endOutage(ctx)); err != nil || !m.acted {
		return status, err
	}
	return cl.statusNow(ctx, clients, s)
}

// disarmOrphans disarms the alarms of members that have left, if the cause left with them.
func (m *alarmRepair) disarmOrphans(ctx context.Context) error {
	v, err := m.clients.View(ctx, m.cl.addresses(m.s))
	if err != nil {
		return nil // without a quorum no alarm can be disarmed; converge reports the problem
	}
	if v.CorruptUnnamed() {
		return m.refuse(v, membership.RequireNotCorrupt(v, 0), corruptNext)
	}
	alarms := membership.Disarmable(v.WithQuota(m.s.Quota()))
	if len(alarms) == 0 {
		return nil
	}
	if err := m.cl.requireLease(ctx, m.s, v); err != nil {
		return err
	}
	err = disarmAfterComparison(ctx, m.clients, m.cl.pace, v, alarms)
	if errors.Is(err, membership.ErrAmbiguous) {
		return m.refuse(v, err, corruptNext)
	}
	m.acted = true
	return err
}

// repairSpace takes one step after another until NOSPACE is no longer raised for this
// member, or no more space can be reclaimed.
func (m *alarmRepair) repairSpace(ctx context.Context) error {
	for {
		v, err := m.clients.View(ctx, m.cl.addresses(m.s))
		if err != nil {
			if !client.Transient(err) {
				return fmt.Errorf("get the alarms of the cluster: %w", err)
			}
			return nil // the change succeeded; the next Read reports the alarm
		}
		v = v.WithQuota(m.s.Quota())
		entry := machine.EntryOf(&v, m.s.Spec)
		if entry == nil {
			return nil
		}
		next := membership.NextSpaceStep(v, entry.ID, m.attempts)
		if next.Kind == membership.SpaceNone {
			return nil
		}
		if err := m.cl.requireLease(ctx, m.s, v); err != nil { // this process may have been suspended
			return err
		}
		if err := m.takeStep(ctx, v, next); err != nil {
			return err
		}
	}
}

// takeStep takes one step. A step that has to wait returns nil and is called again.
func (m *alarmRepair) takeStep(ctx context.Context, v membership.View, next membership.SpaceStep) error {
	target, _ := v.Member(next.ID)
	switch next.Kind {
	case membership.SpaceCompact:
		return m.compact(ctx, v, target)
	case membership.SpaceMoveLeader:
		if waiting, _ := m.turn.Others(); waiting > 0 && target.Name == m.s.Name {
			return m.turn.Yield(ctx) // followers first
		}
		err := handOver(ctx, m.clients, v, &target)
		if errors.Is(err, errStillLeads) {
			return m.waitOrRefuse(ctx, v, err)
		}
		m.since.End()
		return err
	case membership.SpaceDefragment:
		return m.defragment(ctx, v, target)
	case membership.SpaceDisarm:
		return m.disarm(ctx, v, next.Alarms)
	case membership.SpaceWait:
		return m.waitOrRefuse(ctx, v, next.Cause)
	}
	return m.refuse(v, next.Cause,
		"raise quota-backend-bytes in extra_args of every member (etcd advises against more than 8 GiB), or delete objects "+
			"(deletes are still accepted), then apply again")
}

func (m *alarmRepair) compact(ctx context.Context, v membership.View, target membership.Member) error {
	problem.Progress(ctx, "etcd %s: compacting up to the current revision: %s", target.Label(), target.Sizes())
	dropped, err := m.clients.Compact(ctx, target.Address())
	switch {
	case err != nil && client.Transient(err):
		return m.waitOrRefuse(ctx, v, err)
	case err != nil:
		return fmt.Errorf("compact through %s: %w", target.Label(), err)
	}
	m.attempts.Compacted[target.ID] = true
	delete(m.attempts.Defragmented, target.ID) // there may be more to release now
	m.acted = m.acted || dropped
	m.since.End()
	return nil
}

func (m *alarmRepair) defragment(ctx context.Context, v membership.View, target membership.Member) error {
	if m.outage == nil || m.outage.member != target.ID {
		return m.announce(ctx, target) // which takes time: observe again
	}
	problem.Progress(ctx, "etcd %s: defragmenting: %s", target.Label(), target.Sizes())
	m.acted = true
	if err := m.clients.Defragment(ctx, target.Address()); err != nil {
		if client.Transient(err) {
			return m.waitOrRefuse(ctx, v, err)
		}
		return fmt.Errorf("defragment %s: %w", target.Label(), err)
	}
	m.attempts.Defragmented[target.ID] = true
	m.since.End()
	if target.Name != m.s.Name {
		return m.endOutage(ctx)
	}
	return nil
}

func (m *alarmRepair) disarm(ctx context.Context, v membership.View, alarms []membership.Alarm) error {
	for _, a := range alarms {
		err := m.clients.ViaVoter(ctx, v, 0, func(address string) error { return m.clients.Disarm(ctx, address, a) })
		switch {
		case err != nil && client.Transient(err):
			return m.waitOrRefuse(ctx, v, err)
		case err != nil:
			return fmt.Errorf("disarm %s: %w", a.Name, err)
		}
		m.acted = true
		problem.Progress(ctx, "etcd %s: disarmed alarm %s", m.s.Name, a.Name)
	}
	return nil
}

// waitOrRefuse waits a moment for a condition to clear by itself, and lets others that may
// clear it go first. It refuses when the waiting time or the deadline is over.
func (m *alarmRepair) waitOrRefuse(ctx context.Context, v membership.View, cause error) error {
	if !m.since.Running() {
		m.since.Begin(m.turn)
		problem.Progress(ctx, "etcd %s: waiting: %s", m.s.Name, cause)
	}
	if m.since.Lasted() > m.cl.pace.ConditionTimeout || wait.Pause(ctx, 5*m.cl.pace.Poll) != nil {
		return m.refuse(v, cause, m.next)
	}
	if waiting, _ := m.turn.Others(); waiting > 0 {
		return m.turn.Yield(ctx)
	}
	return nil
}

func (m *alarmRepair) refuse(v membership.View, cause error, next string) error {
	unchanged := problem.Nothing
	if m.acted {
		unchanged = m.kept
	}
	return refusal(m.summary, m.s, &v, cause.Error(), unchanged, next)
}

// corruptNext is the next step for cases that the provider must not decide.
const corruptNext = "compare the members (run etcdctl endpoint hashkv --cluster on one of them: " +
	"members with the same hash at the same revision have the same data); destroy the members with the wrong data, " +
	"one at a time, or restore a snapshot if no majority has the same data; if all members have the same data, " +
	"the alarm is obsolete: run etcdctl alarm disarm; then apply again"

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
	done, err := poll.Until(ctx, p.Poll, p.ConditionTimeout, func() (bool, error) {
		var comparable bool
		var err error
		difference, comparable, err = c.CompareData(ctx, asked)
		return comparable, err
	})
	switch {
	case err != nil:
		return err
	case !done:
		return fmt.Errorf("%w: the members did not reach a common revision at which their data could be compared",
			membership.ErrAmbiguous)
	case difference != "":
		return fmt.Errorf("%w: %s", membership.ErrAmbiguous, difference)
	}
	return nil
}

// disarmAfterComparison disarms orphaned alarms. Before it disarms the first one, it compares the
// data of the members if any of the alarms is CORRUPT.
func disarmAfterComparison(
	ctx context.Context, c *client.Clients, p pace, v membership.View, alarms []membership.Alarm,
) error {
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
