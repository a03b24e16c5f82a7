// Package membership decides about the members of an etcd cluster: which may join, leave,
// restart or be upgraded, and what an alarm requires. Its input is a View, the cluster as
// its members described it. It is pure: it sends no requests and changes nothing.
package membership

import (
	"errors"
	"fmt"
)

// Refusals of the membership rules, for use with errors.Is. Each is wrapped with the
// members it concerns.
var (
	errNoLeader   = errors.New("the cluster has no leader that its members agree on")
	ErrLearner    = errors.New("another member is still joining as a learner")
	errQuorum     = errors.New("the cluster would lose quorum")
	ErrUnhealthy  = errors.New("another member is unhealthy")
	ErrLastMember = errors.New("it is the last voting member")
	ErrCorrupt    = errors.New("alarm CORRUPT is raised")
	errNotListed  = errors.New("the member is not in the cluster's member list")
	ErrAlarm      = errors.New("an alarm is raised")
)

// RequireStable refuses every membership change while there is no leader or the data of
// members is known to differ (copying from either side would spread the damage).
func RequireStable(v View) error {
	if _, ok := v.Member(v.Leader); !ok {
		return errNoLeader
	}
	return RequireNotCorrupt(v, 0)
}

// MayAdd returns why no learner may be added now, or nil. The new member is counted as a
// voter that is down, so that the cluster keeps quorum even if it never starts. etcd
// itself has required that since 3.6.11 (isConnectedToQuorumAfterAddingNewMemberSince).
//
// In addition, an odd number of voters does not grow while one of them is unhealthy, as in
// cluster-api: the next voter would raise the number needed for quorum but not the number
// of tolerated failures. An even number may grow: it means that a replacement is in
// progress, and refusing it would deadlock the repair of a cluster that lost two of five
// (cluster-api#10125).
func MayAdd(v View) error {
	if err := RequireStable(v); err != nil {
		return err
	}
	if learners := v.Learners(); len(learners) > 0 {
		return fmt.Errorf("%w: %s", ErrLearner, learners[0].Label())
	}
	voters := v.Voters()
	// etcd makes the same exception: one member cannot have a majority of two.
	if len(voters) == 1 && voters[0].Healthy {
		return nil
	}
	if have, need := CountHealthy(voters), Quorum(len(voters)+1); have < need {
		return fmt.Errorf("%w if the new member failed: with %d voters, %d must be healthy, but %d are (unhealthy: %s)",
			errQuorum, len(voters)+1, need, have, unhealthyNames(voters))
	}
	if names := unhealthyNames(voters); names != "" && len(voters)%2 == 1 {
		return fmt.Errorf("%w, and another voter would not increase the number of tolerated failures: %s", ErrUnhealthy,
			names)
	}
	return nil
}

// MayRemove returns why the member may not be removed now, or nil. The remaining members
// must have quorum. A working member is only removed if every remaining member works too,
// because the quorum may depend on it (cluster-api refuses the same). A dead member
// contributes nothing, but a single unhealthy observation does not make a member dead. A
// CORRUPT member may be removed if it is the only one, and only if every remaining member
// works: all committed data must be on them, because its own copy proves nothing.
func MayRemove(v View, id uint64) error {
	target, ok := v.Member(id)
	if !ok {
		return errNotListed
	}
	if _, led := v.Member(v.Leader); !led {
		return errNoLeader
	}
	if target.Learner {
		return nil
	}
	if err := RequireNotCorrupt(v, id); err != nil {
		return err
	}
	rest := Except(v.Voters(), id)
	if len(rest) == 0 {
		return ErrLastMember
	}
	have, need := CountHealthy(rest), Quorum(len(rest))
	if have < need {
		return fmt.Errorf("%w: of the remaining %d voters, %d must be healthy, but %d are (unhealthy: %s)",
			errQuorum, len(rest), need, have, unhealthyNames(rest))
	}
	if (!target.Dead || target.HasAlarm(AlarmCorrupt)) && have < len(rest) {
		return fmt.Errorf("%w: %s", ErrUnhealthy, unhealthyNames(rest))
	}
	return nil
}

// MayRestart returns why the member may not be restarted now, or nil. An unhealthy member
// has nothing to lose if it is dead, or if the others have quorum without it. Otherwise, as
// the view is linearizable, it may have voted: a single unhealthy observation does not make
// a member dead. With one or two voters each is needed for quorum, so a short interruption
// cannot be avoided; it is allowed only if the other one is healthy. With more voters, not
// every other member has to be healthy if quorum remains: requiring that would forbid all
// maintenance as long as one machine is dead (kubernetes/kubernetes#138403).
func MayRestart(v View, id uint64) error {
	target, ok := v.Member(id)
	if !ok {
		return errNotListed
	}
	voters := v.Voters()
	rest := Except(voters, id)
	have, need := CountHealthy(rest), Quorum(len(voters))
	if len(voters) <= 2 {
		need = len(rest)
	}
	if target.Learner || !target.Healthy && (target.Dead || have >= need) {
		return nil
	}
	if err := RequireStable(v); err != nil {
		return err
	}
	switch {
	case have >= need:
		return nil
	case len(voters) <= 2:
		return fmt.Errorf("%w: %s", ErrUnhealthy, unhealthyNames(rest))
	default:
		return fmt.Errorf("%w during the restart: %d of %d voters must stay healthy, but without this member only "+
			"%d would be (unhealthy: %s)",
			errQuorum, need, len(voters), have, unhealthyNames(rest))
	}
}

// RequireAllHealthy returns an error that names the unhealthy members, or nil.
func RequireAllHealthy(v View) error {
	if err := RequireStable(v); err != nil {
		return err
	}
	if names := unhealthyNames(v.Members); names != "" {
		return fmt.Errorf("%w: %s", ErrUnhealthy, names)
	}
	return nil
}

// HandsOver reports whether the member leads others and can hand over leadership, for which it must be asked itself. If
// it answers no client, it may still lead: the others elect a leader when it stops or leaves.
func HandsOver(v View, id uint64) bool {
	m, _ := v.Member(id)
	return m.Healthy && v.Leader == id && len(v.Voters()) > 1
}

// BestTransferee returns the voter that leadership should move to: a healthy one without a
// data alarm, and of those the one furthest in the log. The name breaks ties.
func BestTransferee(v View, from uint64) (Member, bool) {
	var best Member
	ok := false
	for _, m := range Except(v.Voters(), from) {
		if !m.Healthy || m.HasAlarm(AlarmCorrupt) {
			continue
		}
		if !ok || m.Index > best.Index || m.Index == best.Index && m.Name < best.Name {
			best, ok = m, true
		}
	}
	return best, ok
}
