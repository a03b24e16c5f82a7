package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/release"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// changeVersion changes the member's version, and rolls it back if the member does not
// serve.
func (c *updating) changeVersion(ctx context.Context, v *membership.View, r machine.Repair) error {
	if c.step.Unit != "" { // written first, so that a rollback is possible after any interruption
		r.Change.Files = append([]host.File{{Path: layout.RollbackUnitPath, Content: []byte(c.step.Unit), Mode: 0o644}},
			r.Change.Files...)
	}
	on := c.cl.machine(c.s.Host)
	if _, err := on.Change(ctx, r.Change, machine.Action{Verb: machine.Start, Timers: r.Timers}); err != nil {
		return fmt.Errorf("restart etcd on %s: %w", c.s.Label(), err)
	}
	err := c.waitServing(ctx, c.s.Version)
	switch {
	case err == nil:
		problem.Progress(ctx, "etcd %s: serving with %s", c.s.Name, c.s.Version)
		c.cl.ended(c.s.Version, c.s.Name, true)
		c.leaveOldLog(ctx, c.step.From)
		if err := c.removeRollbackRecord(ctx); err != nil {
			return err
		}
		if c.step.downgrades() {
			return c.endDowngrade(ctx)
		}
		return nil
	case errors.Is(ctx.Err(), context.Canceled):
		return fmt.Errorf("wait for etcd on %s: %w; the next apply continues from there", c.s.Label(), err)
	}
	c.cl.ended(c.s.Version, c.s.Name, false)
	return c.rollBack(ctx, v, err)
}

// removeRollbackRecord removes what a rollback would need, because the member serves.
func (c *updating) removeRollbackRecord(ctx context.Context) error {
	if _, err := c.cl.machine(c.s.Host).Change(ctx, host.Change{Remove: []string{layout.RollbackUnitPath}},
		machine.Action{}); err != nil {
		return fmt.Errorf("complete the version change of etcd on %s: %w", c.s.Label(), err)
	}
	return nil
}

// mayRollBack reports whether a member that was started with a newer version may be
// started with the previous one, and why. agreed is the cluster version that the other
// members report while this one is stopped.
//
// Between releases of one minor version etcd may change in both directions. It may return
// to an older minor version as long as the cluster version is not the newer one, which it
// becomes when the last member runs it (etcd's version.Monitor): until then the newer
// server writes nothing that the older one cannot read. If no member can report the
// cluster version, as with a single member, etcd itself decides, and trying is safe: an
// older server compares the cluster version in its data with its own before it serves, and
// again when it applies the entry that raised it, and exits (mustDetectDowngrade, called
// by RaftCluster.Recover and SetVersion in 3.5; MustDetectDowngrade in 3.6).
func mayRollBack(step versionStep, agreed string, others []membership.Member) (possible bool, why string) {
	from, _, err := release.Parse(step.From)
	to, _, toErr := release.Parse(step.To)
	if step.Unit == "" || err != nil || toErr != nil {
		return false, "the unit of the previous version is no longer known"
	}
	if to < from {
		return true, fmt.Sprintf("etcd %s reads what %s writes, and works in a cluster that is being downgraded", step.From,
			step.To)
	}
	if from == to {
		return true, fmt.Sprintf("%s and %s have the same minor version", step.From, step.To)
	}
	if minor, known := release.AgreedMinor(agreed); known {
		if minor <= from {
			return true, fmt.Sprintf("the cluster version is still 3.%d", minor)
		}
		return false, fmt.Sprintf("it was the last member on 3.%d: the cluster version is now 3.%d, and etcd refuses to "+
			"start an older minor version after that", from, minor)
	}
	for _, m := range others {
		if minor, _, err := release.Parse(m.Version); err == nil && minor <= from {
			return true, fmt.Sprintf("member %s still runs %s", m.Label(), m.Version)
		}
	}
	return true, "no other member reports the cluster version, and etcd itself refuses an unsupported downgrade"
}

// returnsFrom reports whether it is known that a member that serves with the version has, which nobody wanted, can
// return to what it ran before: it is not stopped to find out.
func returnsFrom(step versionStep, has, agreed string, others []membership.Member) bool {
	step.To = has
	from, _, err := release.Parse(step.From)
	to, _, toErr := release.Parse(has)
	if _, known := release.AgreedMinor(agreed); err != nil || toErr != nil || to > from && !known && len(others) == 0 {
		return false
	}
	possible, _ := mayRollBack(step, agreed, others)
	return possible
}

// rollBack returns the member to the version that it ran before, if possible, and reports
// the result as an error. It has its own time limit.
func (c *updating) rollBack(ctx context.Context, v *membership.View, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx),
		2*c.cl.pace.StallTimeout+machine.StartTime(c.size)+c.cl.pace.Cleanup)
	defer cancel()
	p := &problem.Problem{
		Host: c.s.Label(), Err: cause,
		Cause:  fmt.Sprintf("etcd %s was started, but %s", c.step.To, cause),
		Detail: "--- last lines of " + layout.Unit + " with etcd " + c.step.To + "\n" + c.cl.lastLog(ctx, c.s),
	}
	problem.Progress(ctx, "etcd %s: etcd %s was started, but %s", c.s.Name, c.step.To, cause)
	var other *otherVersionError
	if errors.As(cause, &other) { // it serves: it is stopped only if what it ran before is known
		agreed, others := c.others(ctx)
		if !returnsFrom(c.step, other.has, agreed, others) {
			return c.servesOther(other)
		}
	}
	on := c.cl.machine(c.s.Host)
	if _, err := on.Change(ctx, host.Change{}, machine.Action{Verb: machine.Stop}); err != nil {
		return c.notRolledBack(p, v, fmt.Sprintf("its unit could not be stopped for the rollback to %s: %s", c.step.From,
			err))
	}
	agreed, others := c.others(ctx)
	possible, why := mayRollBack(c.step, agreed, others)
	if !possible {
		// Leave it as it was: it may still start to serve, and the next apply handles it
		// like any member that does not serve.
		_, err := on.Change(ctx, host.Change{}, machine.Action{Verb: machine.Start})
		if err != nil {
			why += "; its unit could not be started again: " + err.Error()
		}
		return c.notRolledBack(p, v, "it cannot be rolled back to "+c.step.From+": "+why)
	}
	problem.Progress(ctx, "etcd %s: rolling back to %s: %s", c.s.Name, c.step.From, why)
	unit := host.Change{Files: []host.File{machine.DefinitionFile(c.step.Unit)}}
	_, err := on.Change(ctx, unit, machine.Action{Verb: machine.Start})
	if err == nil {
		err = c.waitServing(ctx, c.step.From)
	}
	if err != nil {
		p.Detail += "\n--- last lines of " + layout.Unit + " with etcd " + c.step.From + "\n" + c.cl.lastLog(ctx, c.s)
		return c.notRolledBack(p, v, fmt.Sprintf("the rollback to %s failed too: %s", c.step.From, err))
	}
	p.Summary = c.step.summaries().rolledBack
	p.Unchanged = fmt.Sprintf("%s serves with etcd %s again, with the same data (%s); "+
		"the other members were not changed%s.", c.s.Name, c.step.From, why, versionsOf(others))
	next := "fix the cause shown in the log below, and apply again"
	if other != nil {
		next = other.next()
	}
	p.Next = next + fmt.Sprintf(" (or set version back to %s)",
		c.step.From) + c.savedAt()
	if err := c.removeRollbackRecord(ctx); err != nil {
		p.Unchanged += " " + layout.RollbackUnitPath + " could not be removed: " + err.Error() + "."
	}
	problem.Progress(ctx, "etcd %s: serving with %s again", c.s.Name, c.step.From)
	return p
}

// servesOther returns the problem of a member that serves with another version than the one that it was started for,
// and is left so.
func (c *updating) servesOther(other *otherVersionError) error {
	p := other.problem(c.step.summaries().refused, c.s)
	p.Next += c.savedAt()
	return p
}

// runsOther returns the error of a member that runs what it should, and whose image has another version: it would serve
// with that after another restart too. Otherwise it returns nil.
func (c *updating) runsOther(v *membership.View) error {
	entry := machine.EntryOf(v, c.s.Spec)
	if entry == nil || !entry.Healthy || entry.Version == "" || entry.Version == c.s.Version ||
		!c.f.RunsDefinition(c.s.Spec) {
		return nil
	}
	return c.servesOther(otherVersion(c.s, entry.Version, c.s.Version))
}

// notRolledBack completes the problem of a member that serves with neither version.
func (c *updating) notRolledBack(p *problem.Problem, v *membership.View, why string) error {
	p.Summary = c.step.summaries().failed
	p.Cause += "; " + why
	p.Unchanged = fmt.Sprintf("%s does not serve, and its data was not changed; the other members were not changed",
		c.s.Name)
	if v != nil {
		p.Unchanged += versionsOf(membership.Except(v.Members, c.f.MemberID()))
		if rest := len(v.Voters()) - 1; rest < membership.Quorum(len(v.Voters())) {
			p.Unchanged += ", but they have no quorum without it"
		} else {
			p.Unchanged += ", and they keep quorum as long as no other member fails"
		}
	}
	p.Unchanged += "."
	p.Next = fmt.Sprintf("fix the cause shown in the log below, and apply again; or replace this member (terraform apply "+
		"-replace=…), which recreates it with the data of the other members; as a last resort, restore the snapshot from "+
		"before the %s with the tools of %s", c.step.noun(), c.step.From) + c.savedAt()
	return p
}

func (c *updating) savedAt() string {
	if c.saved == "" {
		return ""
	}
	return "; the snapshot from before the " + c.step.noun() + " is " + c.saved
}

// versionsOf names the versions of members: " (cp2 3.5.35, cp3 3.6.16)".
func versionsOf(members []membership.Member) string {
	var words []string
	for _, m := range members {
		words = append(words, m.Label()+" "+cmp.Or(m.Version, "-"))
	}
	if len(words) == 0 {
		return ""
	}
	return " (" + strings.Join(words, ", ") + ")"
}

// others queries all members but this one for their versions, and for the cluster version.
func (c *updating) others(ctx context.Context) (agreed string, others []membership.Member) {
	v, err := c.clients.View(ctx, c.cl.addresses(c.s))
	if err != nil {
		return "", nil
	}
	id := c.f.MemberID()
	return c.clients.ClusterVersion(ctx, v, id), membership.Except(v.Members, id)
}
