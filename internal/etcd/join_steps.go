package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// verify determines whether a member that blocks the join is dead. A member that answers,
// healthy or not, is not removed on the word of another member.
func (j *joining) verify(ctx context.Context, v membership.View, next membership.JoinStep) error {
	m, _ := v.Member(next.ID)
	d, err := j.cl.examine(ctx, j.s, m)
	if err != nil {
		return err
	}
	if j.verdict = d; d.ID == 0 {
		return j.waitOrRefuse(ctx, &v, j.cl.pace.ConditionTimeout,
			fmt.Errorf("member %s is running at %v: it answers, but it %s", m.Label(), m.PeerURLs, m.Trouble))
	}
	return nil
}

// prepareCorruptRemoval prepares the removal of a member with corrupt data: the other
// members must have identical data, and one of them must be the leader if the member can
// hand over. It returns false when it had to wait or is moving leadership; the caller then
// observes everything again.
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
		j.turn.Keep()
		j.refused.End()
		return false, j.s.outageBegins(ctx) // Create reports its end
	case membership.HandsOver(v, m.ID):
		err := handOver(ctx, j.clients, v, &m)
		if errors.Is(err, errStillLeads) {
			err = j.waitOrRefuse(ctx, &v, j.cl.pace.StallTimeout, err)
		}
		return false, err
	}
	return true, nil
}

// removeStale removes an entry that blocks the join, if the rules allow it.
func (j *joining) removeStale(ctx context.Context, v membership.View, next membership.JoinStep) error {
	if entry, _ := v.Member(next.ID); entry.HasAlarm(membership.AlarmCorrupt) {
		if ready, err := j.prepareCorruptRemoval(ctx, v, entry); !ready {
			return err
		}
	}
	if err := membership.MayRemove(v, next.ID); err != nil {
		return j.waitOrRefuse(ctx, &v, j.cl.pace.ConditionTimeout, err)
	}
	problem.Progress(ctx, "etcd %s: removing the stale member %x: %s", j.s.Name, next.ID, next.Reason)
	err := removeMember(ctx, j.clients, j.s, v, next.ID)
	switch {
	case err == nil || client.SameError(err, rpctypes.ErrMemberNotFound):
		j.removed = j.outageBegun
		j.progressed()
		return nil
	case client.Transient(err):
		return j.waitOrRefuse(ctx, &v, j.cl.pace.StallTimeout, err)
	}
	return fmt.Errorf("remove stale member %x: %w", next.ID, err)
}

// install installs the programs, after the rules have allowed the member to join: a
// refusal leaves nothing on the machine.
func (j *joining) install(ctx context.Context) error {
	if j.programs {
		return nil
	}
	j.installed = len(machine.MissingArtifacts(j.s.Spec, j.f)) > 0
	if err := machine.Install(ctx, j.cl.machine(j.s.Host), j.s.Spec, j.f); err != nil {
		return err
	}
	j.programs = true
	j.refused.End()
	return nil
}

// add adds the member as a learner and starts it. The files for the start are written with
// the assigned ID, before any data can exist.
func (j *joining) add(ctx context.Context, v membership.View) error {
	if alarms := membership.Disarmable(v.WithQuota(j.s.Quota())); len(alarms) > 0 {
		if err := disarmAfterComparison(ctx, j.clients, j.cl.pace, v, alarms); err != nil {
			return j.waitOrRefuse(ctx, &v, j.cl.pace.ConditionTimeout, err)
		}
		return nil
	}
	if err := membership.MayAdd(v); err != nil {
		if errors.Is(err, membership.ErrLearner) {
			return j.waitForLearner(ctx, &v, v.Learners()[0], err)
		}
		return j.waitOrRefuse(ctx, &v, j.cl.pace.ConditionTimeout, err)
	}
	if ready, err := j.checkVersion(ctx, v); !ready {
		return err
	}
	if !j.programs {
		return j.install(ctx) // installing takes time: check again whether the member may be added
	}
	began := j.turn.Held()
	saved, err := j.cl.savedBeforeGrowth(ctx, j.s, v)
	j.refused.Exclude(began)
	if err != nil {
		return j.waitOrRefuse(ctx, &v, j.cl.pace.ConditionTimeout, err)
	} else if !saved {
		return nil // the same
	}
	var id uint64
	err = j.clients.ViaVoter(ctx, v, 0, func(address string) (err error) {
		id, err = j.clients.AddLearner(ctx, address, j.me.PeerURL)
		return err
	})
	switch {
	case err != nil && client.Transient(err):
		return j.waitOrRefuse(ctx, &v, j.cl.pace.StallTimeout, err) // the next observation shows a learner of another process
	case client.SameError(err, rpctypes.ErrPeerURLExist), client.SameError(err, rpctypes.ErrMemberNotFound):
		// Either the next observation shows the entry, or the new ID equals that of the
		// entry just removed: etcd derives it from URL, token and the current second.
		return j.waitOrRefuse(ctx, &v, j.cl.pace.ConditionTimeout, err)
	case err != nil:
		return fmt.Errorf("add etcd member %s as learner: %w", j.s.Label(), err)
	}
	j.progressed()
	j.added = id
	problem.Progress(ctx, "etcd %s: added as learner %x", j.s.Name, id)
	v.Members = append(v.Members, membership.Member{ID: id, PeerURLs: []string{j.me.PeerURL}})
	j.me.Pending = true
	return j.start(ctx, v, id)
}

// checkVersion reports whether a member of this version may join the others. It checks
// this once. If the member may not join yet, checkVersion has waited a moment. A newer
// member receives the data of the others, which is the same data that an upgrade of the
// others would start with.
func (j *joining) checkVersion(ctx context.Context, v membership.View) (bool, error) {
	if j.versions {
		return true, nil
	}
	if err := membership.MayJoinAs(j.clients.Survey(ctx, v), j.s.Version); err != nil {
		return false, j.refuse(&v, err.Error(), "choose a version that can run together with the other members")
	}
	inspect := prepareUpgrade(j.s, "", v, 0, j.cl.observeAll(ctx, j.s)).Inspect
	switch finding, err := j.cl.checkV2Store(ctx, j.clients, j.s, v, inspect); {
	case err != nil:
		return false, j.waitOrRefuse(ctx, &v, j.cl.pace.ConditionTimeout, err)
	case finding != "":
		return false, j.refuse(&v, finding, v2StoreNext)
	}
	j.versions = true
	return true, nil
}

// start writes the member's files and starts it with the given member ID.
func (j *joining) start(ctx context.Context, v membership.View, id uint64) error {
	if err := j.install(ctx); err != nil {
		return err
	}
	c, err := machine.Certificates(j.s.Spec, j.f, time.Now())
	if err != nil {
		return err
	}
	change, timers := machine.NewMemberChange(j.s.Spec, j.f, c, machine.ID{Member: id, Cluster: v.ClusterID},
		machine.Environment(j.s.Bundle.ClusterID, "existing", initialCluster(v, id, j.s.Name)))
	if !j.me.Pending { // established: it must not start without its data
		change.Files = slices.DeleteFunc(change.Files, func(f host.File) bool { return f.Path == layout.EnvPath })
	}
	j.progressed()
	if _, err := j.cl.machine(j.s.Host).Change(ctx, change,
		j.s.startAction(timers)); err != nil {
		return fmt.Errorf("start etcd on %s: %w", j.s.Label(), err)
	}
	j.me.Data, j.me.Running, j.me.MemberID, j.catchUp = true, true, id, nil
	return nil
}

// initialCluster returns the member list as a joining member must be configured with it:
// every entry, with the member itself under its own name. etcd compares peer URLs, not
// names.
func initialCluster(v membership.View, id uint64, name string) map[string]string {
	members := map[string]string{}
	for _, m := range v.Members {
		key := m.Name
		if key == "" {
			key = fmt.Sprintf("%x", m.ID)
		}
		if m.ID == id {
			key = name
		}
		members[key] = strings.Join(m.PeerURLs, ","+key+"=")
	}
	return members
}
