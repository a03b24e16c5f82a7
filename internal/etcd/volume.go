package etcd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/volume"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/wait"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// taking mounts a member's volume on its machine. It runs before any decision about the member, because the decisions
// depend on the data on the volume.
type taking struct {
	cl   *cluster
	s    Spec
	turn *wait.Turn

	f           machine.Observed
	others      []machine.Observed
	since       wait.Clock // of the wait for the rules
	moving      wait.Clock // of the attempts to move leadership away
	outageBegun bool       // on the machine that the member leaves
	checked     bool       // that the others reach a member on the machine
	released    string     // the machine whose volume this call has released
}

// takeVolume mounts the volume of s on its machine. A member that runs on another machine is stopped there, by the
// rules of a restart.
func (cl *cluster) takeVolume(ctx context.Context, s Spec) error {
	if s.Volume == nil {
		return nil
	}
	t := &taking{cl: cl, s: s}
	d, err := t.decide(ctx)
	if err != nil {
		return err
	}
	if _, due := s.RecordOfVolume(t.f); d.Action == volume.Keep && !due {
		return nil
	}
	t.turn = cl.turns.Enter()
	defer t.turn.Leave()
	if err := t.turn.Wait(ctx); err != nil {
		return notBegun(s, fmt.Errorf("wait to take the volume: %w", err))
	}
	return t.run(cl.withLease(ctx))
}

// run takes one step after another. If it fails before the member has left the former machine, it may serve there.
func (t *taking) run(ctx context.Context) error {
	for {
		done, err := t.step(ctx)
		if err != nil && t.outageBegun && t.released == "" {
			err = errors.Join(err, endOutage(ctx, t.s.FormerOutage))
		}
		if done || err != nil {
			return err
		}
	}
}

// decide observes and decides.
func (t *taking) decide(ctx context.Context) (volume.Decision, error) {
	t.f = t.cl.observe(ctx, t.s, t.s.Name, t.s.Host)
	if !t.f.Reached() {
		return volume.Decision{}, notObserved("etcd member not changed", t.s, t.f.Err)
	}
	if r := t.f.Record; r != nil && (r.ClusterID != t.s.Bundle.ClusterID || r.Name != t.s.Name && t.f.HasMember()) {
		var taken error
		if r.ClusterID == t.s.Bundle.ClusterID {
			taken = &takenError{r.Name}
		}
		return volume.Decision{}, refusedBy(taken, "Machine has another etcd member", t.s, nil,
			fmt.Sprintf("it is the machine of member %q", r.Name), problem.Nothing, "use another machine")
	}
	t.others = nil
	if t.s.Former != nil || !t.f.HasMemberOf(t.s.Spec) {
		t.others = t.cl.observeAll(ctx, t.s)
	}
	if err := t.checkMachineIDs(); err != nil {
		return volume.Decision{}, err
	}
	want := t.s.WantVolume(t.f, t.s.LastMachine, t.s.givesUpData())
	want.LastID = t.s.LastID
	if i := t.f.Volume.Identity; i != nil && i.Has() && want.LastID != "" && i.MemberID != want.LastID {
		if v, err := t.cl.view(ctx, t.s); err == nil && ofData(v, i.MemberID, want.LastID) {
			want.LastID = i.MemberID
		}
	}
	return volume.Decide(want, t.f.Volume, t.holder()), nil
}

// ofData reports whether the member ID on the volume is to be trusted instead of the ID in the state: the cluster lists
// the volume's member, or it does not list the state's member as started. The two differ if an apply that joined the
// member again was interrupted or failed. The join archives data of a member that is not listed, and never starts it.
func ofData(v membership.View, ofVolume, ofState string) bool {
	_, listed := v.Member(membership.ParseID(ofVolume))
	last, there := v.Member(membership.ParseID(ofState))
	return listed || !there || !last.Started()
}

// givesUpData reports whether a restore is requested now that replaces the data of the member by that of another
// source.
func (s Spec) givesUpData() bool {
	return s.NewRestore && s.Restore != nil && s.Restore.Member != s.Name
}

// former returns the machine that the member leaves, if it answers and may use the volume.
func (t *taking) former() (machine.Observed, bool) {
	for _, m := range t.others {
		if t.s.Former != nil && m.Address == t.s.Former.Address() && m.Reached() && !sameMachine(m, t.f) && usesVolume(m) &&
			t.s.wasOn(m) {
			return m, true
		}
	}
	return machine.Observed{}, false
}

// wasOn reports whether the member was on a machine: the machine records it, or has mounted its volume, and it is the
// machine of the state. Another machine may have its address by now, with etcd of another cluster.
func (s Spec) wasOn(m machine.Observed) bool {
	return (m.RecordedAs(s.Spec) || s.Volume != nil && m.HasMemberOf(s.Spec)) &&
		(s.LastMachine == "" || s.LastMachine == m.Facts.MachineID)
}

// usesVolume reports whether a machine may write to the volume, also from another place or mount namespace.
func usesVolume(m machine.Observed) bool {
	return m.Running() || m.Volume.At != "" || m.Volume.Elsewhere != ""
}

// holder returns what is known of the machine that mounted the volume last.
func (t *taking) holder() volume.Holder {
	i := t.f.Volume.Identity
	if former, using := t.former(); using && (i == nil || i.MachineID == former.Facts.MachineID) {
		return volume.Leaving
	}
	for _, m := range t.mayUse() {
		switch {
		case i == nil || !m.Reached() || sameMachine(m, t.f) || m.Facts.MachineID != i.MachineID:
		case usesVolume(m):
			return volume.Using
		default:
			return volume.Idle
		}
	}
	return volume.Unknown
}

// step observes, decides and takes one step.
func (t *taking) step(ctx context.Context) (done bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, fmt.Errorf("take the volume of etcd member %s: %w", t.s.Label(), err)
	}
	d, err := t.decide(ctx)
	if err != nil {
		return false, err
	}
	switch d.Action {
	case volume.Keep:
		return true, t.record(ctx)
	case volume.Release:
		return false, t.release(ctx)
	case volume.Format, volume.Mount:
		return false, t.mount(ctx, d.Action)
	}
	return false, t.refuse(d.Reason, d.Next)
}

// refuse returns the refusal to take the volume.
func (t *taking) refuse(cause, next string) error {
	unchanged := problem.Nothing
	if t.released != "" {
		unchanged = "the data; the member is stopped, and its volume is unmounted on " + t.released +
			", so that it can be detached there."
	}
	return refusal("Volume of etcd member not usable", t.s, nil, cause, unchanged, next)
}

// mount mounts the volume.
func (t *taking) mount(ctx context.Context, a volume.Action) error {
	if err := t.check(ctx); err != nil {
		return err
	}
	name := t.s.Volume.Name()
	if a == volume.Format {
		problem.Progress(ctx, "etcd %s: making a file system on the blank volume %s", t.s.Name, name)
	}
	problem.Progress(ctx, "etcd %s: mounting the volume %s at %s", t.s.Name, name, t.s.Volume.MountPath)
	c, take := t.s.TakeVolume(t.f, a == volume.Format)
	if _, err := t.cl.machine(t.s.Host).Change(ctx, c, take); err != nil {
		return &problem.Problem{
			Summary: "Volume of etcd member not mounted", Host: t.s.Label(), Cause: err.Error(), Err: err,
			Unchanged: "the data on the volume, and all other members.",
			Next: "if it is said to be active on another node, another machine has it mounted: stop etcd and unmount it " +
				"there. Otherwise check the volume on the machine (dmesg, fsck -n), then apply again",
		}
	}
	return nil
}

// check returns an error if the other members would not reach a member on the machine.
func (t *taking) check(ctx context.Context) error {
	if t.checked {
		return nil
	}
	specs, sv := map[string]Spec{t.s.Name: t.s}, t.cl.observeCluster(ctx, t.s)
	barred := t.cl.checkBarriers(ctx, specs, sv)
	if len(barred) == 0 {
		barred = t.cl.checkConnections(ctx, specs, sv)
	}
	for _, name := range slices.Sorted(maps.Keys(barred)) {
		return barred[name]
	}
	t.checked = true
	return nil
}

// record records the member on a machine that has got its volume.
func (t *taking) record(ctx context.Context) error {
	c, due := t.s.RecordOfVolume(t.f)
	if !due {
		return nil
	}
	if _, err := t.cl.machine(t.s.Host).Change(ctx, c, machine.Action{}); err != nil {
		return fmt.Errorf("record the member on the volume of %s: %w", t.s.Label(), err)
	}
	return nil
}
