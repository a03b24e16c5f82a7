package etcd

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// refuseUntrusted returns the refusal for a machine that answers but cannot be worked on,
// because its host key is not trusted or because it rejects the login. Such a machine is
// not gone: there may be a man in the middle, and the member may be serving. For all other
// machines it returns nil, also for one that hangs: the survivors may remove its member if that is dead.
func refuseUntrusted(in leaveInput) *leaveDecision {
	if in.Self.Reached() || host.Unanswered(in.Self.Err) {
		return nil
	}
	return &leaveDecision{
		Kind: leaveRefuse, Reason: "the machine answers, so it still exists, but it cannot be managed: " +
			in.Self.Err.Error(),
		Next: accessRemedy(in.Self.Err),
	}
}

// abandonUnlisted decides about an unreachable machine whose member is not, or no longer,
// in the member list that a survivor returned. The machine can only be left as it is.
func abandonUnlisted(in leaveInput) leaveDecision {
	if in.Abandon.Covers(in.Self.Address, in.Self.Err) {
		return leaveDecision{Kind: leaveAbandon}
	}
	return leaveDecision{
		Kind: leaveRefuse, Reason: "the member is no longer in the cluster, but its machine cannot be reached to stop it: " +
			in.Self.Err.Error(),
		Next: unreachedNext(in.Self),
	}
}

// unreachedNext is the next step for a machine that does not answer.
func unreachedNext(m machine.Observed) string {
	if errors.Is(m.Err, host.ErrNoAnswer) {
		return host.HangRemedy
	}
	return abandonNext(m.Address)
}

// refuseAlive refuses the removal of the only voter if its machine cannot be reached but
// the member answers through another machine.
func refuseAlive(in leaveInput, id uint64) leaveDecision {
	return leaveDecision{
		Kind: leaveRefuse, ID: id,
		Reason: "it is the only voter and answers through another machine, so it still exists, " +
			"although its own machine cannot be reached: " + in.Self.Err.Error(),
		Next: "make the machine reachable and destroy again; or, to give up the cluster with its data, " +
			"power the machine off first",
	}
}

// abandonWithoutQuorum decides about an unreachable machine when no member of the cluster
// gives an answer backed by a quorum. Possibly only the operator's network is down, and
// the member is a live voter. So the member is abandoned only together with the whole
// cluster: the user has named every machine that cannot be reached, and the reachable ones
// have nothing of a member.
func abandonWithoutQuorum(in leaveInput) leaveDecision {
	var holding, unsaid []machine.Observed
	running := false
	for _, m := range append(slices.Clone(in.Others), in.Self) {
		switch {
		case m.Reached() && m.MayHold(in.Cluster):
			holding = append(holding, m)
			running = running || m.Running()
		case !m.Reached() && !in.Abandon.Covers(m.Address, m.Err):
			unsaid = append(unsaid, m)
		}
	}
	stay := slices.ContainsFunc(holding, func(m machine.Observed) bool { return !in.Leaving[m.Name] })
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
			Reason: fmt.Sprintf("no quorum of the cluster answers, but the cluster still exists: there is a member on %s, "+
				"and %s cannot be reached to check whether its member is running",
				strings.Join(machine.Labels(holding), ", "), in.Self.Label()),
			Next: "restore the quorum (systemctl start " + layout.Unit + " on the stopped members) and destroy again; " +
				"to give up the whole cluster, destroy all of its members in one run",
		}
	}
	if in.Protected {
		return leaveDecision{
			Kind: leaveRefuse, Reason: "no member of the cluster answers, and deletion_protection is enabled",
			Next: "recover the machines; " + pki.AllowDeletion,
		}
	}
	return leaveDecision{Kind: leaveAbandon}
}

func unsaidReason(unsaid []machine.Observed) string {
	var causes []string
	for _, m := range unsaid {
		causes = append(causes, m.Label()+": "+m.Err.Error())
	}
	return "neither the machine nor a quorum of the cluster answers: possibly only the network is down " +
		"and the member is running. Unreachable and not listed as abandoned: " + strings.Join(causes, "; ")
}

func unsaidNext(unsaid []machine.Observed) string {
	var addresses []string
	for _, m := range unsaid {
		if host.MayBeLost(m.Err) {
			addresses = append(addresses, m.Address)
		}
	}
	next := "recover the machines or the network, so that another member can remove this one, and destroy again"
	if len(addresses) > 0 {
		next += "; only if the whole cluster is permanently lost, " + host.AbandonRemedy(addresses...)
	}
	return next
}

// abandonNext returns the next step for machines that cannot be reached.
func abandonNext(addresses ...string) string {
	return "make the machine reachable and destroy again; if it is permanently lost, " + host.AbandonRemedy(addresses...)
}
