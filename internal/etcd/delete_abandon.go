package etcd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// refuseUntrusted is the refusal for a machine that answers and cannot be worked
// on: its host key is not trusted, or it lets nobody in. That is no machine that
// is gone: somebody may be in the middle, and the member may serve. It is nil for
// all others.
func refuseUntrusted(in leaveInput) *leaveDecision {
	if in.Self.reached() || host.Unreachable(in.Self.Err) {
		return nil
	}
	return &leaveDecision{
		Kind: leaveRefuse, Reason: "the machine answers, so it is not gone, and cannot be worked on: " + in.Self.Err.Error(),
		Next: accessRemedy(in.Self.Err),
	}
}

// abandonUnlisted is for an unreachable machine whose member the cluster does not
// have (any more), by the word of a survivor: it can only be left as it is.
func abandonUnlisted(in leaveInput) leaveDecision {
	if in.Abandon.Covers(in.Self.Address, in.Self.Err) {
		return leaveDecision{Kind: leaveAbandon}
	}
	return leaveDecision{
		Kind: leaveRefuse, Reason: "the cluster no longer counts on this member, but its machine cannot be reached to stop it: " + in.Self.Err.Error(),
		Next: abandonNext(in.Self.Address),
	}
}

// refuseAlive is for the only voter, when its machine cannot be reached and it
// answers all the same, through another machine.
func refuseAlive(in leaveInput, id uint64) leaveDecision {
	return leaveDecision{
		Kind: leaveRefuse, ID: id,
		Reason: "it is the only voter and answers through another machine, so it is not gone, although its own machine cannot be reached: " + in.Self.Err.Error(),
		Next:   "make the machine reachable and destroy again; or power it off first, if the cluster is to be given up without its data",
	}
}

// abandonWithoutQuorum is for an unreachable machine when no member of the cluster gives
// an answer that a quorum stands behind. It may be the operator's network alone
// that is down, and the member a living voter. So it is given up only together
// with the whole cluster: the user has named every machine that cannot be reached,
// and those that can be reached hold nothing of a member.
func abandonWithoutQuorum(in leaveInput) leaveDecision {
	var holding, unsaid []observed
	running := false
	for _, m := range append(slices.Clone(in.Others), in.Self) {
		switch {
		case m.reached() && m.mayHold(in.Cluster):
			holding = append(holding, m)
			running = running || m.running()
		case !m.reached() && !in.Abandon.Covers(m.Address, m.Err):
			unsaid = append(unsaid, m)
		}
	}
	stay := slices.ContainsFunc(holding, func(m observed) bool { return !in.Leaving[m.Name] })
	switch {
	case len(unsaid) > 0:
		d := leaveDecision{Kind: leaveRefuse, Reason: unsaidReason(unsaid), Next: unsaidNext(unsaid)}
		if running { // the answer may only be late
			d.Kind, d.Otherwise = leaveWait, leaveRefuse
		}
		return d
	case len(holding) > 0:
		return leaveDecision{
			Kind: leaveWait, Otherwise: leaveRefuse, Follows: !stay,
			Reason: fmt.Sprintf("no quorum of the cluster answers, but it is not gone: there is a member on %s, and %s cannot be reached to see whether its member lives",
				strings.Join(labels(holding), ", "), in.Self.label()),
			Next: "bring a quorum back (systemctl start " + unitName + " on the stopped members) and destroy again; " +
				"to give the whole cluster up, destroy all of its members in one run",
		}
	}
	if in.Protected {
		return leaveDecision{
			Kind: leaveRefuse, Reason: "no member of the cluster is left that answers, and its deletion_protection is on",
			Next: "bring the machines back; " + pki.AllowDeletion,
		}
	}
	return leaveDecision{Kind: leaveAbandon}
}

// mayHold reports whether there may be a member of the cluster on a machine that
// was reached. What no record says to be another cluster's may be this one's.
func (f observed) mayHold(clusterID string) bool {
	return !f.empty() && (f.Record == nil || f.Record.ClusterID == clusterID)
}

func unsaidReason(unsaid []observed) string {
	var causes []string
	for _, m := range unsaid {
		causes = append(causes, m.label()+": "+m.Err.Error())
	}
	return "neither the machine nor a quorum of the cluster answers: it may be the network alone that is down, and the member alive. " +
		"Not reached, and not said to be gone for good: " + strings.Join(causes, "; ")
}

func unsaidNext(unsaid []observed) string {
	var addresses []string
	for _, m := range unsaid {
		if host.Unreachable(m.Err) {
			addresses = append(addresses, m.Address)
		}
	}
	next := "bring the machines or the network back, so that a survivor can remove the member, and destroy again"
	if len(addresses) > 0 {
		next += "; only if the whole cluster is gone for good, " + host.AbandonRemedy(addresses...)
	}
	return next
}

// abandonNext is the next step for machines that cannot be reached.
func abandonNext(addresses ...string) string {
	return "make the machine reachable and destroy again; if it is gone for good, " + host.AbandonRemedy(addresses...)
}
