package etcd

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// leaveKind is how a member leaves.
type leaveKind int

const (
	leaveWait    leaveKind = iota // not now: decide again until the waiting time is over, then do Otherwise
	leaveRefuse                   // the removal is refused
	leaveRemove                   // hand over leadership, remove through another member, then clean
	leaveLast                     // snapshot, stop, clean
	leaveClean                    // the cluster does not have the member (any more): clean the machine
	leaveAbandon                  // nothing more can be done for an unreachable machine, and that is allowed
	// the machine has another member or cluster now, and the cluster does not list this member
	leaveOccupied
)

func (k leaveKind) String() string {
	return [...]string{"wait", "refuse", "remove", "last", "clean", "abandon", "occupied"}[k]
}

// leaveDecision is the next thing to do for a member that is to be removed.
type leaveDecision struct {
	Kind      leaveKind
	Otherwise leaveKind // of leaveWait: refuse, or clean
	Follows   bool      // of leaveWait: for other Deletes of this process, which have time limits of their own
	ID        uint64
	Keep      bool // archive the data even if it was to be wiped: it may be the last copy
	Reason    string
	Next      string
}

// leaveInput is the input of the decision.
type leaveInput struct {
	Name    string
	PeerURL string
	Cluster string // cluster ID
	DataDir string
	View    *membership.View // nil: no member returned a linearizable answer
	Self    machine.Observed
	Others  []machine.Observed // the other peers
	Leaving map[string]bool    // members whose Delete is in progress in this process
	Abandon host.Abandoned

	// OnVolume means that the machine has the member's data on its volume, which is attached and not mounted: the machine
	// was rebuilt, or could not mount it.
	OnVolume  bool
	Protected bool     // deletion protection: the cluster must not be destroyed
	Pending   []string // members whose Create is in progress in this process
	Following []string // the same, and a removal of this run has made room for the member
	Awaiting  []string // the same, and the Create waits for a removal: it ends no wait of a Delete
	Failed    []string // members whose Create has failed in this process
}

// occupied describes why what is on the machine is not this member, or returns "": the
// machine, or its address, was given to another member or another cluster.
func (in leaveInput) occupied() string {
	if !in.Self.Reached() || in.Self.Empty() {
		return ""
	}
	if foreign := in.Self.Foreign(in.Cluster, in.DataDir); foreign != "" {
		return foreign
	}
	if m := in.Self.Record; m != nil && m.Name != in.Name {
		return fmt.Sprintf("the machine now has member %q", m.Name)
	}
	return ""
}

// unrecorded reports whether the machine has a member, and nothing says which: the definition and the data are there,
// and the record is missing or invalid.
func (in leaveInput) unrecorded() bool {
	f := in.Self
	return f.Reached() && f.Record == nil && f.HasUnit() && (f.Data || f.Running())
}

// refuseUnrecorded refuses the removal of a member whose record is missing: its machine would be left with a process,
// the data and the keys. The cluster vouches for a member that serves, so an apply writes the record again. Nothing
// vouches for another one.
func refuseUnrecorded(in leaveInput) leaveDecision {
	return leaveDecision{
		Kind: leaveRefuse, Reason: in.occupied() + ", so whether it is this member is not known",
		Next: "apply the member without destroying or replacing it: while it serves, " + layout.RecordPath + " is written " +
			"again. Then destroy it. If it does not serve, or belongs to another cluster, stop it and move " +
			layout.ConfigDir + " and " + in.DataDir + " away, then destroy again. To leave the machine as it is and only " +
			"forget the member, use terraform state rm",
	}
}

// mayBeElsewhere reports whether another machine has, or may have, a member of the
// cluster.
func (in leaveInput) mayBeElsewhere() bool {
	return slices.ContainsFunc(in.Others, func(m machine.Observed) bool { return !m.Reached() || m.HasMember() })
}

// decideLeave decides what a Delete does next. The member is removed from the cluster
// before its process is stopped, and data is never wiped if the removal failed.
func decideLeave(in leaveInput) leaveDecision {
	if d := refuseUntrusted(in); d != nil {
		return *d
	}
	if in.View == nil {
		if in.unrecorded() {
			return refuseUnrecorded(in)
		}
		return leaveWithoutQuorum(in)
	}
	entry, listed := in.View.ByPeerURL(in.PeerURL)
	if !listed && in.Self.Reached() && in.occupied() == "" {
		// At another peer URL than that of its machine. What the machine says of its ID may be a lie: the name in the
		// cluster's list is none.
		if elsewhere, there := in.View.Member(in.Self.MemberID()); there && elsewhere.Name == in.Name {
			entry, listed = elsewhere, true
		}
	}
	if listed && entry.Name != "" && entry.Name != in.Name { // the address belongs to another member now
		return leaveDecision{Kind: leaveOccupied, Reason: fmt.Sprintf("the cluster lists %s as member %q", in.PeerURL,
			entry.Name)}
	}
	if in.unrecorded() {
		return refuseUnrecorded(in)
	}
	if !listed {
		return leaveUnlisted(in)
	}
	err := membership.MayRemove(in.toLeave(), entry.ID)
	switch {
	case err == nil && len(in.Following) > 0 && entry.Healthy && !entry.Learner:
		return leaveDecision{
			Kind: leaveWait, Otherwise: leaveRemove, ID: entry.ID, Reason: "this run has removed members, and others join in " +
				"their place: " + strings.Join(in.Following, ", "),
		}
	case err == nil:
		return leaveDecision{Kind: leaveRemove, ID: entry.ID}
	case errors.Is(err, membership.ErrLastMember) && len(in.View.Learners()) > 0 &&
		membership.CountHealthy(in.View.Learners()) > 0:
		return leaveDecision{
			Kind: leaveWait, Otherwise: leaveRefuse, ID: entry.ID, Reason: "it is the only voter, and " +
				in.View.Learners()[0].Label() + " is joining",
			Next: "wait until the other member has joined, then destroy again",
		}
	case errors.Is(err, membership.ErrLastMember):
		return leaveLastVoter(in, entry)
	}
	next := "repair or remove the unhealthy members first (a dead one can always be destroyed), then destroy again"
	if errors.Is(err, membership.ErrCorrupt) {
		next = corruptNext
	}
	return leaveDecision{Kind: leaveWait, Otherwise: leaveRefuse, ID: entry.ID, Reason: err.Error(), Next: next}
}

// othersFirst reports whether others that wait for their turn should have it before the member leaves. Every follower
// that leaves before the leader saves an election. A member that was removed earlier, and whose machine was not
// cleaned, can learn of its removal only from the last one.
func othersFirst(in leaveInput, d leaveDecision) bool {
	return d.Kind == leaveLast || d.Kind == leaveRemove && in.View.Leader == d.ID && len(in.View.Voters()) > 1
}

// leaveLastVoter decides about the last voter. Its removal ends the cluster, which
// requires an explicit request and is never a side effect of another change.
func leaveLastVoter(in leaveInput, entry membership.Member) leaveDecision {
	stays := leaveDecision{Kind: leaveRefuse, ID: entry.ID}
	switch {
	case len(in.Pending) > 0:
		stays.Kind, stays.Otherwise = leaveWait, leaveRefuse
		stays.Reason = "it is the last voting member, and this run creates others: " + strings.Join(in.Pending, ", ")
		stays.Next = "apply again when the others have joined"
	case len(in.Awaiting) > 0:
		stays.Kind, stays.Otherwise = leaveWait, leaveRefuse
		stays.Reason = "it is the last voting member, and this run creates others that can only join after a removal: " +
			strings.Join(in.Awaiting, ", ")
		stays.Next = "first add a member of another name on another machine and apply, then replace this one"
	case len(in.Failed) > 0:
		stays.Reason = "it is the last voting member, and the members that were to replace it could not be created: " +
			strings.Join(in.Failed, ", ")
		stays.Next = "fix the errors of these members, and apply again"
	case in.Protected:
		stays.Reason = "it is the last voting member: its removal ends the cluster and its data, " +
			"and deletion_protection is enabled"
		stays.Next = "to replace this member, first add another one and apply, then replace this one; " + pki.AllowDeletion
	case !in.Self.Reached():
		return refuseAlive(in, entry.ID)
	case in.occupied() != "":
		return leaveUnlisted(in)
	default:
		return leaveDecision{Kind: leaveLast, ID: entry.ID}
	}
	return stays
}

// toLeave returns the view for the decision about a removal. If every voter is leaving and may leave, no
// data is copied between members any more and all data is archived, so alarms block no
// removal.
func (in leaveInput) toLeave() membership.View {
	if in.Protected || len(in.Pending)+len(in.Awaiting)+len(in.Failed) > 0 {
		return *in.View // the last one stays
	}
	for _, m := range in.View.Voters() {
		if !in.Leaving[m.Name] {
			return *in.View
		}
	}
	return in.View.WithAlarms(nil)
}

// leaveUnlisted decides about a member that is not in the member list, or for which the
// survivors have already done all that they can. Data of another etcd cluster than the one that
// serves is kept: that one may have been restored from an older state.
func leaveUnlisted(in leaveInput) leaveDecision {
	switch {
	case in.occupied() != "":
		return leaveDecision{Kind: leaveOccupied, Reason: in.occupied()}
	case in.Self.Reached():
		earlier := in.Self.OfEarlierCluster(in.View.ClusterID)
		return leaveDecision{Kind: leaveClean, Keep: earlier != "", Reason: earlier}
	}
	return abandonUnlisted(in)
}

// leaveWithoutQuorum decides when the cluster does not answer. Data is then kept in any
// case. The member may be stopped if that is harmless: no other etcd of the cluster is
// running (or all that run are leaving too), or no member can have committed anything. As
// an answer may only be late (an election, a start), it waits first as long as any etcd
// runs. A member of which nothing is left has nothing to stop: only the others can remove it.
func leaveWithoutQuorum(in leaveInput) leaveDecision {
	if !in.Self.Reached() {
		return abandonWithoutQuorum(in)
	}
	if reason := in.occupied(); reason != "" {
		return leaveOccupiedWithoutQuorum(in, reason)
	}
	if in.Protected && in.OnVolume { // as with data in a directory, whether the member has served is not known
		return leaveDecision{
			Kind: leaveWait, Otherwise: leaveRefuse,
			Reason: "no quorum of the cluster answers, the member's data is on its volume, which is not mounted, and " +
				"deletion_protection is enabled",
			Next: "apply, which mounts the volumes of all members and starts them, and then destroy again; " +
				pki.AllowDeletion,
		}
	}
	return leaveStopped(in, in.withoutQuorum())
}

// leaveOccupiedWithoutQuorum decides for a machine that something else occupies, for a reason.
func leaveOccupiedWithoutQuorum(in leaveInput, reason string) leaveDecision {
	if !in.mayBeElsewhere() {
		return leaveDecision{Kind: leaveOccupied, Reason: reason} // no cluster is left to remove it from
	}
	return leaveDecision{
		Kind: leaveWait, Otherwise: leaveRefuse,
		Reason: "no quorum of the cluster answers to remove the member, and " + reason,
		Next: "restore the quorum of the cluster and destroy again: the other members then remove this one, " +
			"and the machine is not changed",
	}
}

// membersWithoutQuorum is what the machines of a cluster that does not answer have.
type membersWithoutQuorum struct {
	unreached  []string           // labels of the others that could not be reached
	undeclared []machine.Observed // those of them that are not declared lost
	running    []string           // labels of the others whose etcd runs, and that do not leave too
	began      []machine.Observed // all that have a member, including this one
	anyRuns    bool               // etcd runs on any of them
}

func (in leaveInput) withoutQuorum() membersWithoutQuorum {
	out := membersWithoutQuorum{began: []machine.Observed{}, anyRuns: in.Self.Running()}
	for _, m := range append(slices.Clone(in.Others), in.Self) {
		if m.Reached() && m.HasMember() {
			out.began = append(out.began, m)
		}
	}
	for _, m := range in.Others {
		switch {
		case !m.Reached():
			out.unreached = append(out.unreached, m.Label())
			if !in.Abandon.Covers(m.Address, m.Err) {
				out.undeclared = append(out.undeclared, m)
			}
		case m.Running():
			out.anyRuns = true
			if !in.Leaving[m.Name] {
				out.running = append(out.running, m.Label())
			}
		}
	}
	return out
}

// leaveStopped decides whether the member may be stopped although no quorum can remove it.
func leaveStopped(in leaveInput, members membersWithoutQuorum) leaveDecision {
	clean := leaveDecision{Kind: leaveClean, Keep: true}
	late := leaveDecision{Kind: leaveWait, Otherwise: leaveClean, Keep: true}
	switch began := members.began; {
	case len(members.undeclared) > 0:
		return leaveDecision{
			Kind: leaveWait, Otherwise: leaveRefuse,
			Reason: "no quorum of the cluster answers, and these machines could not be reached: " +
				strings.Join(members.unreached, ", "),
			Next: unsaidNext(members.undeclared),
		}
	case len(members.unreached) == 0 && (!mayHaveCommitted(began) || in.Protected && neverServed(began)):
		return clean
	case in.Protected && in.Self.Retired() != "":
		return refuseRetired(in.Self.Retired())
	case in.Protected && in.Self.HasMember():
		return leaveDecision{
			Kind: leaveWait, Otherwise: leaveRefuse,
			Reason: "no quorum of the cluster answers, its machines have data, and deletion_protection is enabled",
			Next: "restore the quorum (systemctl start " + layout.Unit + " on the stopped members) and apply again; " +
				pki.AllowDeletion,
		}
	case len(members.running) > 0:
		return leaveDecision{
			Kind: leaveWait, Otherwise: leaveRefuse,
			Reason: "quorum lost: no quorum of the cluster answers, but etcd is still running on " +
				strings.Join(members.running, ", "),
			Next: "restore the quorum (systemctl start " + layout.Unit + " on the stopped members) and destroy again; " +
				"to give up the whole cluster, destroy all of its members in one run, or stop etcd on those machines first",
		}
	case len(in.staying()) > 0:
		return refuseVanished(in)
	case members.anyRuns:
		return late
	}
	return clean
}

// refuseRetired refuses the removal of a member whose data was archived for a restore.
func refuseRetired(restore string) leaveDecision {
	return leaveDecision{
		Kind: leaveRefuse,
		Reason: fmt.Sprintf("a restore (%s) was begun and not completed: the data of this member is archived for it, and "+
			"deletion_protection is enabled", restore),
		Next: "apply with the same restore again, which completes it; " + pki.AllowDeletion,
	}
}

// staying returns the other machines with an established member that stays, if nothing is left of this member on its
// own machine. With deletion protection, no member that has data leaves without a quorum.
func (in leaveInput) staying() []machine.Observed {
	if in.Self.HasMember() || in.OnVolume {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(in.Others), func(m machine.Observed) bool {
		established := m.Reached() && m.HasMember() && m.MayHold(in.Cluster) && !m.Pending && m.Retired() == ""
		return !established || in.Leaving[m.Name] && !in.Protected
	})
}

// refuseVanished refuses the removal of a member of which nothing is left, while others stay. They still list it, and
// would be left with a voter that never comes back.
func refuseVanished(in leaveInput) leaveDecision {
	d := leaveDecision{
		Kind: leaveWait, Otherwise: leaveRefuse,
		Reason: "its machine has nothing of the member, and no quorum of the cluster answers to remove it from the member " +
			"list, but the cluster still has members on " + strings.Join(machine.Labels(in.staying()), ", "),
		Next: "start the others first (systemctl start " + layout.Unit + "), so that they remove this one, and destroy " +
			"again; ",
	}
	if in.Protected {
		d.Next += pki.AllowDeletion
	} else {
		d.Next += "to give up the whole cluster, destroy all of its members, and then this one again"
	}
	return d
}
