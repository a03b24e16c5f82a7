package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/wait"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// replaced reports whether a new member has to replace this one.
func replaced(s Spec, f machine.Observed, v *membership.View) bool {
	entry := machine.EntryOf(v, s.Spec)
	return v != nil && entry == nil || // it was removed
		entry != nil && entry.HasAlarm(membership.AlarmCorrupt) || // its data is corrupt
		v != nil && f.OfEarlierCluster(v.ClusterID) != "" || // its data is that of an earlier cluster
		entry != nil && !entry.Healthy && f.MemberID() != 0 && f.MemberID() != entry.ID // or that of another member
}

// Update brings the member to s. It changes one member at a time, followers before the
// leader, moves leadership away first, and restarts only if a file has changed that etcd
// does not reload.
func (c *Clusters) Update(ctx context.Context, s Spec) (Status, error) {
	cl := c.of(s)
	if err := checkPod(s); err != nil {
		return Status{}, err
	}
	if err := cl.takeVolume(ctx, s); err != nil {
		return Status{}, err
	}
	if err := cl.takeUp(ctx, s); err != nil {
		return Status{}, err
	}
	status, err := c.update(ctx, s)
	if err == nil && status.ID == "" && cl.listedElsewhere(ctx, s) {
		// The only member serves on another machine than the cluster lists. Now it can be told.
		status, err = c.Create(ctx, s)
	}
	if err == nil {
		err = cl.clearFormer(ctx, s)
	}
	return cl.withUnmanaged(s, status, err)
}

func (c *Clusters) update(ctx context.Context, s Spec) (Status, error) {
	cl := c.of(s)
	turn := cl.turns.Enter()
	f := cl.observe(ctx, s, s.Name, s.Host)
	if !f.Reached() {
		turn.Leave()
		return Status{}, notObserved("etcd member not changed", s, f.Err)
	}
	if machine.Rebuilt(f) || f.RestoreDue(s.Spec) { // left to Create, with all its checks
		turn.Leave()
		return c.Create(ctx, s)
	}
	defer turn.Leave()
	if err := cl.requireOneCluster(ctx, s); err != nil {
		return Status{}, err
	}
	v, err := cl.viewOf(ctx, s)
	if err != nil {
		return Status{}, err
	}
	if cause := f.UnhealthyInherited(s.Spec, v, time.Now()); cause != "" {
		return Status{}, refusal("etcd member not taken over", s, v, cause, problem.Nothing,
			"make the member healthy with kubeadm: if its certificates are the cause, kubeadm certs renew etcd-server and "+
				"kubeadm certs renew etcd-peer, then restart its static pod. Then apply again")
	}
	checked := f
	if f.Data && !f.Pending {
		checked.Facts.ClockOffset = 0 // compare refuses to issue certificates for another time
	}
	if err := checkMachine(s, checked); err != nil && !f.RecordLost(s.Spec, v) {
		return Status{}, err
	}
	if cause := f.NotTakenOver(s.Spec); cause != "" {
		return Status{}, refusal("etcd member not taken over", s, v, cause, problem.Nothing,
			"apply with the bundle, the runtime and the version that were imported from the machine")
	}
	if replaced(s, f, v) {
		turn.Leave()
		return c.Create(ctx, s)
	}
	entry := machine.EntryOf(v, s.Spec)
	r, err := compare(s, f, v)
	if err != nil || !r.Needed() && len(machine.MissingArtifacts(s.Spec, f)) == 0 && !HasAlarm(v, entry) &&
		membership.AbandonedDowngrade(v, s.Version) == "" {
		return describe(s, f, v), err // nothing to wait for
	}
	if err := turn.Wait(ctx); err != nil {
		return Status{}, err
	}
	return cl.updateAndRepair(cl.withLease(ctx), turn, s)
}

// updating is the update of one established member to its spec, in its turn.
type updating struct {
	cl          *cluster
	s           Spec
	turn        *wait.Turn
	clients     *client.Clients
	f           machine.Observed
	since       wait.Clock   // of the wait for the rules
	moving      wait.Clock   // of the attempts to move leadership away
	settling    wait.Clock   // of the wait for all members to be healthy
	outageBegun bool         // the outage was announced, so its end must be announced too
	renewed     bool         // see renewFirst
	rotation    rotationWait // to the generation of s

	step  versionStep
	size  int64  // of its database, as last observed
	saved string // the snapshot from before the upgrade
}

// converge observes, compares and acts until nothing differs.
func (cl *cluster) converge(ctx context.Context, turn *wait.Turn, s Spec) (Status, error) {
	clients, err := cl.connect(s)
	if err != nil {
		return Status{}, err
	}
	defer clients.Close()
	c := &updating{cl: cl, s: s, turn: turn, clients: clients}
	c.rotation = rotationWait{
		cl: cl, s: s, turn: turn, clients: clients, summary: "etcd member not changed",
		unchanged: problem.Nothing,
	}
	status, err := c.loop(ctx)
	if c.outageBegun {
		err = errors.Join(err, s.outageEnded(ctx))
		turn.Free()
	}
	return status, err
}

// loop observes, compares and acts.
func (c *updating) loop(ctx context.Context) (Status, error) {
	cl, s := c.cl, c.s
	for {
		c.f = cl.observe(ctx, s, s.Name, s.Host)
		if !c.f.Reached() {
			return Status{}, notObserved("etcd member not changed", s, c.f.Err)
		}
		view, err := c.observe(ctx)
		if err != nil {
			return Status{}, err
		}
		entry := machine.EntryOf(view, s.Spec)
		r, err := compare(s, c.f, view)
		if err != nil {
			return Status{}, err
		}
		c.step = versionStepOf(s, c.f, entry)
		if entry != nil {
			c.size = max(c.size, entry.DBSize)
		}
		if !r.Needed() && len(machine.MissingArtifacts(s.Spec, c.f)) == 0 &&
			membership.AbandonedDowngrade(view, s.Version) == "" {
			return describe(s, c.f, view), nil
		}
		done, err := c.apply(ctx, view, r)
		if err != nil || done {
			return c.final(ctx, err)
		}
	}
}

// observe returns the cluster's view; nil if no member answers. If no member answers and
// the machines have data of different etcd clusters, it returns an error, so that nothing
// is started.
func (c *updating) observe(ctx context.Context) (*membership.View, error) {
	v, err := c.cl.observeToChange(ctx, c.clients, c.s)
	switch {
	case err == nil:
		return &v, nil
	case !errors.Is(err, client.ErrNoAnswer):
		return nil, err
	}
	if mixed := machine.DifferentClusters(c.cl.observeAll(ctx, c.s)); mixed != "" {
		return nil, refusal("etcd member not changed", c.s, nil, mixed, problem.Nothing, differentClustersNext)
	}
	return nil, nil
}

// final returns the status after a change.
func (c *updating) final(ctx context.Context, err error) (Status, error) {
	if err != nil {
		return Status{}, err
	}
	return c.cl.statusNow(ctx, c.clients, c.s)
}

// apply makes one repair if the rules allow it now. It returns false if it had to wait;
// the caller then observes everything again.
func (c *updating) apply(ctx context.Context, v *membership.View, r machine.Repair) (bool, error) {
	if renewed, err := c.renewFirst(ctx, v, r); renewed || err != nil {
		return false, err
	}
	if err := c.runsOther(v); err != nil {
		return false, err
	}
	if ready, err := c.readyToChange(ctx, v); !ready {
		return false, err
	}
	if err := machine.Install(ctx, c.cl.machine(c.s.Host), c.s.Spec, c.f); err != nil {
		return false, err
	}
	if r.Restart == "" {
		// What was cut off has left a record.
		c.leaveOldLog(ctx, machine.UnitVersion(c.f.Facts.Files[layout.RollbackUnitPath].Content))
		return true, c.write(ctx, r)
	}
	if err := c.mayChangeDefinition(v, r); err != nil {
		return false, err
	}
	if ready, err := c.readyToRestart(ctx, v); !ready || err != nil {
		return false, err
	}
	if !c.outageBegun {
		c.outageBegun = true
		if v != nil { // otherwise this member may serve only when others have started
			c.turn.Keep()
		}
		c.settling.End()
		return false, c.s.outageBegins(ctx) // announcing takes time: observe again
	}
	problem.Progress(ctx, "etcd %s: restarting: %s", c.s.Name, r.Restart)
	if c.f.OtherRuntime(c.s.Spec) != "" {
		return false, c.leaveRuntime(ctx)
	}
	if c.step.due() {
		// A downgrade that this version gives up is known only now, because 3.5 does not report it.
		return false, c.changeVersion(ctx, v, r)
	}
	return c.restart(ctx, v, r)
}

// renewFirst writes new certificates, and nothing else, if the member answers no client and has to be restarted too.
// etcd reads them at each handshake. If all members are silent because their certificates have expired, the restart, or
// what comes before it, would wait for a quorum that only new ones bring back. If it reports true, the caller observes
// everything again.
func (c *updating) renewFirst(ctx context.Context, v *membership.View, r machine.Repair) (bool, error) {
	entry := machine.EntryOf(v, c.s.Spec)
	if c.renewed || r.Restart == "" || len(r.Pairs) == 0 || v != nil && (entry == nil || entry.Healthy) {
		return false, nil
	}
	c.renewed = true
	problem.Progress(ctx, "etcd %s: it answers no client: its certificates are renewed first", c.s.Name)
	return true, c.write(ctx, machine.Repair{Change: host.Change{Files: r.Pairs}})
}

// readyToChange reports whether the version and the stage of a rotation allow a change of the member now. If not, it
// has waited, or has changed something that comes first.
func (c *updating) readyToChange(ctx context.Context, v *membership.View) (bool, error) {
	if v != nil {
		if err := c.checkVersion(ctx, *v); err != nil {
			return false, err
		}
	}
	if minor := membership.AbandonedDowngrade(v, c.s.Version); minor != "" {
		return false, c.cancelDowngrade(ctx, *v, minor)
	}
	if c.f.Record != nil && c.f.Record.Generation != c.s.Generation() {
		if near, err := c.rotation.ready(ctx, v); !near {
			return false, err
		}
	}
	if !c.step.due() {
		return true, nil
	}
	if other := c.f.OtherRuntime(c.s.Spec); other != "" {
		return false, refusal("etcd member not changed", c.s, v,
			fmt.Sprintf("%s, and the version would change from %s to %s at once", other, c.step.From, c.step.To),
			problem.Nothing, "change one of the two, apply, then change the other")
	}
	return c.readyToUpgrade(ctx, v)
}

// restart restarts the member with the changes of r, and returns when it serves. A definition with which it does not
// serve is replaced by the former one.
func (c *updating) restart(ctx context.Context, v *membership.View, r machine.Repair) (bool, error) {
	entry := machine.EntryOf(v, c.s.Spec)
	former := formerDefinition(c.f, entry, r)
	if _, err := c.cl.machine(c.s.Host).Change(ctx, r.Change, machine.Action{
		Verb: machine.Start, DataDir: c.s.Directory(), Remount: r.Remount, Returns: r.Returns, Timers: r.Timers,
	}); err != nil {
		return false, fmt.Errorf("restart etcd on %s: %w", c.s.Label(), err)
	}
	if v == nil {
		// There may be a quorum only when another stopped member has started too.
		c.turn.Free()
		if waiting, _ := c.turn.Others(); waiting > 0 {
			if err := c.turn.Yield(ctx); err != nil {
				return false, err
			}
		}
	}
	if err := c.waitServing(ctx, c.s.Version); err != nil {
		if changesDefinition(c.f, entry, r) && !errors.Is(ctx.Err(), context.Canceled) {
			c.cl.noteUnstarted(c.s.Name)
		}
		switch {
		case former != "":
			return false, c.returnTo(ctx, former, err)
		case c.f.IsInherited() && !r.Returns:
			return false, c.notStartedAnew(ctx, err)
		}
		return false, c.cl.notServing(ctx, c.s, err)
	}
	c.cl.noteRestart()
	if c.f.UpgradeUnfinished() {
		return true, c.removeRollbackRecord(ctx) // the upgrade was given up
	}
	return true, nil
}

// leaveRuntime stops the member and removes what runs it. The next observation finds a member without a definition,
// which is repaired like one whose unit was lost. So is one that was cut off here, by whatever its configuration then
// wants.
func (c *updating) leaveRuntime(ctx context.Context) error {
	leave := machine.Action{Verb: machine.LeaveRuntime}
	if _, err := c.cl.machine(c.s.Host).Change(ctx, host.Change{}, leave); err != nil {
		return fmt.Errorf("stop etcd on %s to change its runtime: %w", c.s.Label(), err)
	}
	return nil
}

// checkVersion checks the version against the running ones before any change.
func (c *updating) checkVersion(ctx context.Context, v membership.View) error {
	if machine.EntryOf(&v, c.s.Spec) == nil {
		return refusal("etcd member not changed", c.s, &v, "the member is not in the cluster's member list", problem.Nothing,
			"plan again: the member must be created again")
	}
	if unit := machine.UnitVersion(c.f.Definition()); !c.step.due() &&
		(unit == "" || unit == c.s.Version) {
		return nil // the version does not change
	}
	if err := membership.MayChangeVersion(c.clients.Survey(ctx, v), c.s.Version); err != nil {
		return &problem.Problem{
			Summary: "etcd version not possible", Attribute: "version", Host: c.s.Label(), Cause: err.Error(),
			Unchanged: problem.Nothing, Next: "choose a version that the cluster can be changed to", Detail: v.String(),
		}
	}
	return nil
}

// write makes a change that needs no restart.
func (c *updating) write(ctx context.Context, r machine.Repair) error {
	if _, err := c.cl.machine(c.s.Host).Change(ctx, r.Change, machine.Action{Timers: r.Timers}); err != nil {
		return fmt.Errorf("change etcd on %s: %w", c.s.Label(), err)
	}
	return nil
}

// compare returns what brings an established member to s. It refuses a machine whose record
// is lost, unless the cluster vouches for the member, and certificates for a machine with another time.
func compare(s Spec, f machine.Observed, v *membership.View) (machine.Repair, error) {
	if f.Record == nil && !f.RecordLost(s.Spec, v) {
		return machine.Repair{}, refusal("etcd member not changed", s, v, f.Foreign(s.Bundle.ClusterID, s.Directory()),
			problem.Nothing,
			"recover the member until the cluster lists it as healthy, then apply again: its record is then rewritten")
	}
	r, err := machine.Repairs(s.Spec, f, v, time.Now())
	if wrong := f.Facts.ClockProblem(); err == nil && r.Issues && wrong != "" {
		return machine.Repair{}, refusal("etcd member not changed", s, v, wrong, problem.Nothing,
			"set the clock of the machine, or of this computer, then apply again")
	}
	return r, err
}
