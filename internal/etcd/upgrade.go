package etcd

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/release"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// errUnreachable means that a member's machine cannot be reached.
var errUnreachable = errors.New("a member's machine cannot be reached")

// versionStep is a member's change of version.
type versionStep struct {
	From string // the running version, or the one before an interrupted upgrade
	To   string
	Unit string // the unit of From; "" if it is unknown
}

// due reports whether the version changes.
func (s versionStep) due() bool { return s.From != "" && s.From != s.To }

// downgrades reports whether the step is one to an older minor version.
func (s versionStep) downgrades() bool { return release.IsOlder(s.To, s.From) }

// noun returns what the step is called.
func (s versionStep) noun() string {
	if s.downgrades() {
		return "downgrade"
	}
	return "upgrade"
}

// stepSummaries are the summaries of the problems of a step.
type stepSummaries struct{ refused, rolledBack, failed string }

func (s versionStep) summaries() stepSummaries {
	if s.downgrades() {
		return stepSummaries{
			"etcd not downgraded", "etcd not downgraded, and rolled back", "etcd not downgraded, and not rolled back",
		}
	}
	return stepSummaries{
		"etcd not upgraded", "etcd not upgraded, and rolled back", "etcd not upgraded, and not rolled back",
	}
}

// versionStepOf determines the member's running version from the machine and the cluster.
func versionStepOf(s Spec, f machine.Observed, entry *membership.Member) versionStep {
	unit, before := f.Definition(), f.Facts.Files[layout.RollbackUnitPath].Content
	out := versionStep{To: s.Version}
	answers := entry != nil && entry.Version != ""
	cutOff := machine.UnitVersion(before) != "" && (!answers || entry.Version == s.Version && !entry.Healthy)
	switch {
	case cutOff:
		out.From = machine.UnitVersion(before)
	case answers:
		out.From = entry.Version
	default:
		out.From = machine.UnitVersion(unit)
	}
	switch out.From {
	case "":
	case machine.UnitVersion(before): // the unit may be the new one already
		out.Unit = before
	case machine.UnitVersion(unit):
		out.Unit = unit
	}
	return out
}

// upgradePreparation is what must be done before the first member is upgraded to a
// version.
type upgradePreparation struct {
	Wait    error              // a condition that may clear by itself
	Refuse  string             // a condition that does not, and
	Next    string             // the next step for it
	Install []machine.Observed // machines that lack the programs
	Inspect []machine.Observed // machines whose data is checked for content that etcd 3.6 does not accept
	Save    *membership.Member // the member whose machine saves the snapshot; nil: there is one
	Saved   string             // the existing snapshot
}

// prepareUpgrade decides about the preparation from the observed state of all members and
// machines. It refuses if the machine of a member cannot be reached: the programs could
// not be installed there, and the member could not be repaired.
func prepareUpgrade(
	s Spec, from string, v membership.View, id uint64, machines []machine.Observed,
) upgradePreparation {
	var p upgradePreparation
	var silent []string
	reached := map[string]bool{}
	own := machineWith(v, id, machines)
	for _, f := range machines {
		switch _, listed := v.ByPeerURL(membership.PeerURL(f.Address)); {
		case !listed:
		case !f.Reached():
			silent = append(silent, fmt.Sprintf("%s: %s", f.Label(), f.Err))
		case f.Record != nil && f.Record.ClusterID == s.Bundle.ClusterID:
			reached[f.Address] = true
			p.consider(s, from, v, f, own)
		}
	}
	if len(silent) > 0 {
		p.Wait = fmt.Errorf("%w: %s", errUnreachable, strings.Join(silent, "; "))
		return p
	}
	// If members run the version already, and there is a snapshot from before the first of
	// them, the upgrade is in progress. One from before another upgrade to it does not count.
	if p.Saved != "" && slices.ContainsFunc(v.Members, func(m membership.Member) bool { return m.Version == s.Version }) {
		return p
	}
	p.Saved, p.Save = "", saver(v, id, reached)
	if p.Save == nil {
		p.Refuse, p.Next = "no healthy member is on a reachable machine, so no snapshot can be saved",
			"recover the machines, then apply again"
	}
	return p
}

// machineWith returns the machine of the member with an ID.
func machineWith(v membership.View, id uint64, machines []machine.Observed) machine.Observed {
	for _, f := range machines {
		if entry, listed := v.ByPeerURL(membership.PeerURL(f.Address)); listed && entry.ID == id {
			return f
		}
	}
	return machine.Observed{}
}

// consider adds what one machine needs. own is that of s.
func (p *upgradePreparation) consider(s Spec, from string, v membership.View, f, own machine.Observed) {
	entry, _ := v.ByPeerURL(membership.PeerURL(f.Address))
	if len(machine.MissingArtifacts(s.PreparedOn(f, own), f)) > 0 {
		p.Install = append(p.Install, f)
	}
	saved := snapshot.SavedBefore(f.Facts, s.Directory(), from, s.Version)
	if saved != "" && path.Base(saved) > path.Base(p.Saved) { // the names begin with the time
		p.Saved = saved + " on " + f.Label()
	}
	if !release.LeavesV2(entry.Version, s.Version) {
		return
	}
	p.Inspect = append(p.Inspect, f)
	if flag := v2Flag(f.Definition()); flag != "" && p.Refuse == "" {
		p.Refuse = fmt.Sprintf("etcd on %s runs with --%s, which etcd 3.6 does not support", f.Label(), flag)
		p.Next = v2StoreNext
	}
}

// saver returns the member whose machine saves the snapshot: the one that is upgraded
// first, if possible, else the first by name.
func saver(v membership.View, id uint64, reached map[string]bool) *membership.Member {
	fit := slices.DeleteFunc(v.Voters(), func(m membership.Member) bool { return !m.Healthy || !reached[m.Address()] })
	if i := slices.IndexFunc(fit, func(m membership.Member) bool { return m.ID == id }); i >= 0 {
		return &fit[i]
	}
	if len(fit) == 0 {
		return nil
	}
	return &fit[0]
}

// readyToUpgrade reports whether the member may be upgraded now. Once per cluster and
// version, it prepares all members. Before each member, it checks that all others are
// healthy. If the member may not be upgraded yet, it has waited a moment.
func (c *updating) readyToUpgrade(ctx context.Context, v *membership.View) (bool, error) {
	if failed := c.cl.failedAt(c.s.Version); failed != "" && failed != c.s.Name {
		return false, c.notUpgraded(v, fmt.Sprintf("member %q did not start with etcd %s in this run", failed, c.s.Version),
			"fix the cause reported for it, then apply again")
	}
	if v == nil {
		// Without a quorum no snapshot can be saved. An interrupted upgrade continues.
		if c.f.UpgradeUnfinished() {
			return true, nil
		}
		return false, c.waitOrRefuse(ctx, nil, client.ErrNoAnswer)
	}
	entry := machine.EntryOf(v, c.s.Spec)
	if err := membership.MayBeginUpgrade(*v, entry.ID); err != nil {
		return false, c.waitOrRefuse(ctx, v, err)
	}
	if saved, ready := c.cl.readyFor(c.s.Version); ready {
		c.saved = saved
		if c.step.downgrades() {
			return c.readyToDowngrade(ctx, *v)
		}
		return true, nil
	}
	p := prepareUpgrade(c.s, c.step.From, *v, entry.ID, c.cl.observeAll(ctx, c.s))
	switch {
	case p.Wait != nil:
		return false, c.waitOrRefuse(ctx, v, p.Wait)
	case p.Refuse != "":
		return false, c.notUpgraded(v, p.Refuse, p.Next)
	}
	switch finding, err := c.cl.checkV2Store(ctx, c.clients, c.s, *v, p.Inspect); {
	case err != nil:
		return false, c.waitOrRefuse(ctx, v, err)
	case finding != "":
		return false, c.notUpgraded(v, finding, v2StoreNext)
	}
	return false, c.prepareUpgrade(ctx, *v, p) // preparing takes time: observe again
}

// prepareUpgrade installs the programs on every machine and saves the snapshot.
func (c *updating) prepareUpgrade(ctx context.Context, v membership.View, p upgradePreparation) error {
	noun := c.step.noun()
	problem.Progress(ctx, "etcd: preparing the %s to %s with %d members", noun, c.s.Version, len(v.Members))
	if err := c.installAll(ctx, v, p.Install); err != nil {
		return err
	}
	saved := p.Saved
	if p.Save != nil {
		h := c.cl.hostAt(p.Save.Address(), c.s)
		got, err := c.cl.save(ctx, saving{
			machine: c.cl.machine(h), cluster: c.s.Bundle.ClusterID, member: *p.Save,
			label: snapshot.UpgradeLabel(c.step.From, c.s.Version), dir: snapshot.UpgradesDir,
		})
		if err != nil {
			return c.notUpgradedBy(err, &v, "no snapshot could be saved before the "+noun+": "+err.Error(),
				nextUnlessEnded(ctx, "repair the member or free space, depending on the cause, then apply again", "apply again"))
		}
		saved = got.Path + " on " + got.Host
	} else {
		problem.Progress(ctx, "etcd: the %s to %s is in progress; the snapshot from before the %[1]s is %[3]s",
			noun, c.s.Version, saved)
	}
	c.cl.setReady(c.s.Version, saved)
	c.since.End()
	return nil
}

// installAll installs the programs on all machines in parallel, however few members
// Terraform changes at a time: a failed download is reported before the first member is
// changed.
func (c *updating) installAll(ctx context.Context, v membership.View, machines []machine.Observed) error {
	var mu sync.Mutex
	var troubles []string
	var group sync.WaitGroup
	for _, f := range machines {
		s := c.s
		s.Spec = s.PreparedOn(f, c.f)
		s.Name, s.Host = f.Name, c.cl.hostAt(f.Address, c.s)
		group.Go(func() {
			if err := machine.Install(ctx, c.cl.machine(s.Host), s.Spec, f); err != nil {
				var p *problem.Problem
				cause := err.Error()
				if errors.As(err, &p) {
					cause = p.Host + ": " + p.Cause
				}
				mu.Lock()
				defer mu.Unlock()
				troubles = append(troubles, cause)
			}
		})
	}
	group.Wait()
	if len(troubles) == 0 {
		return nil
	}
	slices.Sort(troubles)
	return c.notUpgraded(&v, "etcd "+c.s.Version+" could not be installed on every machine: "+strings.Join(troubles, "; "),
		"check the artifact source of the provider and the version, then apply again")
}

// notUpgraded returns the refusal of a version that has changed no member.
func (c *updating) notUpgraded(v *membership.View, cause, next string) error {
	return c.notUpgradedBy(nil, v, cause, next)
}

// notUpgradedBy is notUpgraded for an error that the cause describes.
func (c *updating) notUpgradedBy(err error, v *membership.View, cause, next string) error {
	unchanged := problem.Nothing
	if v != nil && v.Downgrade != "" && c.step.downgrades() {
		unchanged = fmt.Sprintf("%s was not changed; the downgrade stays enabled, and the cluster works as etcd %s until "+
			"it ends or version is set back.", c.s.Name, v.Downgrade)
	}
	return refusedBy(err, c.step.summaries().refused, c.s, v, cause, unchanged, next)
}

// upgrades is what this process knows of the upgrades of one cluster. The cluster's mutex
// guards it.
type upgrades struct {
	ready  map[string]string // version → the snapshot from before it
	failed map[string]string // version → the member that did not start serving with it
}

func (cl *cluster) readyFor(version string) (snapshot string, ready bool) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	snapshot, ready = cl.upgrades.ready[version]
	return snapshot, ready
}

func (cl *cluster) setReady(version, snapshot string) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if cl.upgrades.ready == nil {
		cl.upgrades.ready = map[string]string{}
	}
	cl.upgrades.ready[version] = snapshot
}

// failedAt returns the member that failed to serve with a version in this process: the
// same change would break the next one too.
func (cl *cluster) failedAt(version string) string {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return cl.upgrades.failed[version]
}

// ended records how the upgrade of one member ended. After a failure everything is
// prepared again, because time passes until the next attempt.
func (cl *cluster) ended(version, name string, well bool) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	switch {
	case !well:
		if cl.upgrades.failed == nil {
			cl.upgrades.failed = map[string]string{}
		}
		cl.upgrades.failed[version] = name
		delete(cl.upgrades.ready, version)
	case cl.upgrades.failed[version] == name:
		delete(cl.upgrades.failed, version)
	}
	if well {
		cl.restarted = time.Now()
	}
}
