package etcd

import (
	"context"
	"fmt"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// takeUp puts the archived data directory of s in place, if its machine has no data, before anything is decided about
// the member: from then on, the rules of a join, a restart and a removal hold as for any other.
func (cl *cluster) takeUp(ctx context.Context, s Spec) error {
	if s.ArchivedDataDir == "" {
		return nil
	}
	if due, _, err := cl.takeUpDue(ctx, s); !due || err != nil {
		return err
	}
	turn := cl.turns.Enter()
	defer turn.Leave()
	if err := turn.Wait(ctx); err != nil {
		return notBegun(s, fmt.Errorf("wait to take up the archived data: %w", err))
	}
	ctx = cl.withLease(ctx)
	due, f, err := cl.takeUpDue(ctx, s) // waiting takes time
	if !due || err != nil {
		return err
	}
	a, err := machine.ArchivedAt(ctx, cl.machine(s.Host), s.Spec)
	if err != nil {
		return notBegun(s, err)
	}
	v, err := cl.view(ctx, s)
	if err != nil {
		return refuseTakeUp(s, nil, "whether the member was removed from the cluster is not known: "+err.Error(),
			"recover a quorum of the members, then apply again; if it is lost for good, use restore")
	}
	if reason, next := mayTakeUp(s, f, a, v); reason != "" {
		return refuseTakeUp(s, &v, reason, next)
	}
	problem.Progress(ctx, "etcd %s: taking up its data in %s", s.Name, s.ArchivedDataDir)
	c, take := s.TakeUp(f, a.ID)
	if _, err := cl.machine(s.Host).Change(ctx, c, take); err != nil {
		return fmt.Errorf("take up the data of %s in %s: %w", s.Label(), s.ArchivedDataDir, err)
	}
	return nil
}

// takeUpDue reports whether the machine of s has no data.
func (cl *cluster) takeUpDue(ctx context.Context, s Spec) (due bool, f machine.Observed, err error) {
	f = cl.observe(ctx, s, s.Name, s.Host)
	if !f.Reached() {
		return false, f, notObserved("etcd member not changed", s, f.Err)
	}
	return !f.Data, f, nil
}

// mayTakeUp decides by what the machine, the state and the cluster say of the data. It returns why not, and what to do.
func mayTakeUp(s Spec, f machine.Observed, a machine.ArchivedData, v membership.View) (reason, next string) {
	const other = "name the directory that the member's data was moved to, or omit archived_data_dir: the member then " +
		"joins with the data of the others"
	switch {
	case !a.There:
		return "there is no data of a member (no directory member)", other
	case a.Err != nil:
		return a.Err.Error(), other
	case a.Links:
		return "there are symbolic links in it, and etcd makes none", "remove them, then apply again"
	case !a.SameDisk:
		return fmt.Sprintf("it is not on the file system of %s, and data is never copied", s.Directory()),
			"move it there, next to " + s.Directory() + ", then apply again"
	case f.Record != nil && f.Record.ClusterID != s.Bundle.ClusterID:
		return fmt.Sprintf("the machine has member %q of another cluster, %q", f.Record.Name, f.Record.ClusterName),
			"use another machine"
	}
	return membership.MayTakeUp(v, membership.Archived{
		Member: a.ID.Member, Cluster: a.ID.Cluster, Name: s.Name, PeerURL: s.PeerURL(), Running: f.Unit.Active == "active",
		StateMember: membership.ParseID(s.LastID), Machine: f.Facts.MachineID, StateMachine: s.LastMachine,
	})
}

func refuseTakeUp(s Spec, v *membership.View, reason, next string) error {
	return refusal("Archived data of etcd member not taken up", s, v, s.ArchivedDataDir+": "+reason, problem.Nothing, next)
}
