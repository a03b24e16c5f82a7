package etcd

import (
	"context"
	"errors"
	"fmt"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/poll"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Maintenance is requested by the user and changes no configuration. It follows the rules of other
// changes: one member at a time, under the cluster's lease, the leader last.

// Defragmented is the result of a defragmentation. The sizes are those of the database.
type Defragmented struct {
	Before, After int64
	Done          bool // false: the free share was below the limit
}

// Defragment releases the free pages of a member's database. The member does not answer meanwhile,
// so leadership moves away first, and a replica that uses only this member leaves rotation.
func (c *Clusters) Defragment(ctx context.Context, s Spec, d membership.Defragmentation) (Defragmented, error) {
	cl := c.of(s)
	turn := cl.turns.Enter()
	defer turn.Leave()
	if err := turn.Wait(ctx); err != nil {
		return Defragmented{}, fmt.Errorf("wait to defragment etcd member %s: %w", s.Label(), err)
	}
	ctx = cl.withLease(ctx)
	clients, err := cl.connect(s)
	if err != nil {
		return Defragmented{}, err
	}
	defer clients.Close()
	m := newAlarmRepair(cl, s, turn, clients)
	m.summary, m.kept, m.next = "etcd member not defragmented", "all keys.", defragmentNext
	out, err := m.defragmentRequested(ctx, d)
	return out, errors.Join(err, m.endOutage(ctx))
}

const defragmentNext = "recover the unhealthy members, then try again; with fewer than three voters, add members, or " +
	"use force, and choose a time at which the cluster may pause"

// defragmentRequested takes one step after another until the member is defragmented.
func (m *alarmRepair) defragmentRequested(ctx context.Context, d membership.Defragmentation) (Defragmented, error) {
	var out Defragmented
	for {
		v, err := m.cl.observeToChange(ctx, m.clients, m.s)
		if err != nil {
			return out, notMaintained(m.summary, m.s, err)
		}
		entry := machine.EntryOf(&v, m.s.Spec)
		if entry == nil || entry.Name != m.s.Name {
			return out, m.refuse(v, fmt.Errorf("no member of that name has the peer URL %s", m.s.PeerURL()),
				"correct the name or the address, then try again")
		}
		if out.Before == 0 {
			out.Before = entry.DBSize
		}
		next := membership.NextDefragmentStep(v, entry.ID, d, m.attempts)
		switch next.Kind {
		case membership.SpaceNone:
			out.After, out.Done = entry.DBSize, m.attempts.Defragmented[entry.ID]
			report(ctx, *entry, d, out)
			return out, nil
		case membership.SpaceRefuse:
			return out, m.refuse(v, next.Cause, m.next)
		}
		if err := m.takeStep(ctx, v, next); err != nil {
			return out, err
		}
	}
}

func report(ctx context.Context, entry membership.Member, d membership.Defragmentation, out Defragmented) {
	if out.Done {
		problem.Progress(ctx, "etcd %s: defragmented: %s before, %s now", entry.Label(), membership.Bytes(out.Before),
			membership.Bytes(out.After))
		return
	}
	problem.Progress(ctx, "etcd %s: not defragmented: %d %% of %s are free, less than %d %%", entry.Label(),
		entry.FreeShare(), membership.Bytes(entry.DBSize), d.MinFree)
}

// MoveLeader moves leadership to the member with a name, or to the best candidate if the name is
// empty. It returns the name of the leader. s is any member of the cluster.
func (c *Clusters) MoveLeader(ctx context.Context, s Spec, to string) (string, error) {
	cl := c.of(s)
	turn := cl.turns.Enter()
	defer turn.Leave()
	if err := turn.Wait(ctx); err != nil {
		return "", fmt.Errorf("wait to move the leadership of etcd: %w", err)
	}
	ctx = cl.withLease(ctx)
	clients, err := cl.connect(s)
	if err != nil {
		return "", err
	}
	defer clients.Close()
	view, err := cl.awaitLeader(ctx, clients, s, &to)
	if err != nil {
		return "", err
	}
	problem.Progress(ctx, "etcd: %s leads %d members", to, len(view.Members))
	return to, nil
}

const notMoved = "etcd leadership not moved"

// awaitLeader moves leadership to the member with a name, which it sets if it is empty, and returns
// the view in which that member leads.
func (cl *cluster) awaitLeader(
	ctx context.Context, clients *client.Clients, s Spec, to *string,
) (view membership.View, err error) {
	var cause error
	done, err := poll.Until(ctx, cl.pace.Poll, cl.pace.ConditionTimeout, func() (bool, error) {
		var err error
		if view, err = cl.observeToChange(ctx, clients, s); err != nil {
			return false, notMaintained(notMoved, s, err)
		}
		target, err := heir(view, *to)
		if cause = err; err != nil {
			return false, nil // it may recover
		}
		if *to = target.Name; view.Leader == target.ID {
			return true, nil
		}
		cause = fmt.Errorf("%s did not become the leader within %s", *to, cl.pace.ConditionTimeout)
		leader, _ := view.Member(view.Leader)
		err = moveLeader(ctx, clients, leader, target)
		if errors.Is(err, errStillLeads) {
			cause = err
			return false, nil
		}
		return false, err
	})
	if err != nil || done {
		return view, err
	}
	return view, refusal(notMoved, s, &view, cause.Error(), problem.Nothing,
		"choose another healthy voter, or recover that member, then try again")
}

// heir returns the member that is to lead.
func heir(v membership.View, to string) (membership.Member, error) {
	if to == "" {
		best, ok := membership.BestTransferee(v, v.Leader)
		if !ok {
			return best, errors.New("no other healthy voter can lead")
		}
		return best, nil
	}
	target, _ := v.ByName(to)
	if err := membership.MayLead(v, target.ID); err != nil {
		return target, fmt.Errorf("member %q: %w", to, err)
	}
	return target, nil
}

// notMaintained explains why the cluster could not be observed.
func notMaintained(summary string, s Spec, err error) error {
	if !client.Transient(err) {
		return err
	}
	return &problem.Problem{
		Summary: summary, Host: s.Label(), Cause: err.Error(), Err: err, Unchanged: problem.Nothing,
		Next: "restore a quorum of the etcd members, and the machines through which they are reached, then try again",
	}
}

// SaveNow saves a verified snapshot on the machine of one of the members, with the label in its
// name, next to the snapshots of upgrades and never in their place.
func (c *Clusters) SaveNow(
	ctx context.Context, hosts map[string]*host.Host, b *pki.Bundle, label string,
) (snapshot.Saved, error) {
	return c.saveOnOne(ctx, hosts, b, saving{label: label, dir: snapshot.RequestedDir})
}
