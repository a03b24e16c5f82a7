package etcd

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Refusals of the membership rules, for branching with errors.Is. Each comes
// wrapped with the members it is about.
var (
	errNoLeader   = errors.New("the cluster has no leader that its members agree on")
	errLearner    = errors.New("another member is still joining as a learner")
	errQuorum     = errors.New("the cluster would lose quorum")
	errUnhealthy  = errors.New("another member is unhealthy")
	errLastMember = errors.New("it is the last voting member")
	errCorrupt    = errors.New("the alarm CORRUPT is raised")
	errNotListed  = errors.New("the cluster does not list the member")
)

// Member is one entry of the cluster's own member list, with what the member
// itself answered when it was asked.
type Member struct {
	ID         uint64
	Name       string // "" until the member has started for the first time, for one that was added
	PeerURLs   []string
	ClientURLs []string // published by the member itself: empty means that it has never served
	Learner    bool
	Healthy    bool   // a voter: a linearizable read through it succeeds; a learner: it answers and knows the leader
	Trouble    string // why it is not healthy
	Dead       bool   // not healthy, and silent for long enough (see cluster.examine): never by one look alone
	Version    string // of the running server; "" when it does not answer
	Index      uint64 // raft index
	Applied    uint64 // of it
	DBSize     int64  // bytes
	DBInUse    int64  // bytes: what would be left after a defragmentation
	DBQuota    int64  // bytes; negative: none; 0: not known (etcd 3.5 does not say)
	Alarms     []string
}

// Started reports whether the member has ever served: only then can anything
// have been promised on the strength of its data directory.
func (m Member) Started() bool { return len(m.ClientURLs) > 0 }

// peerAddress is where the other members reach it, or "".
func (m Member) peerAddress() string {
	for _, text := range m.PeerURLs {
		if u, err := url.Parse(text); err == nil && u.Hostname() != "" {
			return u.Hostname()
		}
	}
	return ""
}

// label names the member in messages.
func (m Member) label() string {
	if m.Name != "" {
		return m.Name
	}
	return fmt.Sprintf("%x (%s)", m.ID, strings.Join(m.PeerURLs, ","))
}

// View is a cluster as its members describe it at one moment.
type View struct {
	ClusterID uint64
	Members   []Member // sorted by name, then ID
	Leader    uint64   // 0: none, or the members disagree
	Orphans   []Alarm  // raised for nobody on the list
}

// member returns the entry with this id.
func (v View) member(id uint64) (Member, bool) {
	i := slices.IndexFunc(v.Members, func(m Member) bool { return m.ID == id })
	if i < 0 {
		return Member{}, false
	}
	return v.Members[i], true
}

// at returns the entry that has this peer URL. etcd admits no second one.
func (v View) at(peerURL string) (Member, bool) {
	i := slices.IndexFunc(v.Members, func(m Member) bool { return slices.Contains(m.PeerURLs, peerURL) })
	if i < 0 {
		return Member{}, false
	}
	return v.Members[i], true
}

// named returns the entry with this name.
func (v View) named(name string) (Member, bool) {
	i := slices.IndexFunc(v.Members, func(m Member) bool { return m.Name == name })
	if i < 0 {
		return Member{}, false
	}
	return v.Members[i], true
}

func (v View) voters() []Member {
	return slices.DeleteFunc(slices.Clone(v.Members), func(m Member) bool { return m.Learner })
}

func (v View) learners() []Member {
	return slices.DeleteFunc(slices.Clone(v.Members), func(m Member) bool { return !m.Learner })
}

// quorum is the number of votes that n voters need.
func quorum(n int) int { return n/2 + 1 }

func healthy(members []Member) int {
	n := 0
	for _, m := range members {
		if m.Healthy {
			n++
		}
	}
	return n
}

func except(members []Member, id uint64) []Member {
	return slices.DeleteFunc(slices.Clone(members), func(m Member) bool { return m.ID == id })
}

func unhealthyNames(members []Member) string {
	var names []string
	for _, m := range members {
		if !m.Healthy {
			names = append(names, m.label())
		}
	}
	return strings.Join(names, ", ")
}

// settled refuses every membership change while nobody leads or data is known
// to differ between members (copying from either side would spread the damage).
func settled(v View) error {
	if _, ok := v.member(v.Leader); !ok {
		return errNoLeader
	}
	return uncorrupted(v, 0)
}

// uncorrupted says for which member other than the given one CORRUPT is
// raised. An alarm whose member has left counts until it is disarmed: etcd
// refuses every write as long.
func uncorrupted(v View, not uint64) error {
	for _, m := range v.raised(alarmCorrupt) {
		if m.ID != not {
			return fmt.Errorf("%w for %s", errCorrupt, m.label())
		}
	}
	if v.unnamed() {
		return fmt.Errorf("%w, and etcd cannot tell for which member", errCorrupt)
	}
	if gone := v.orphaned(alarmCorrupt); len(gone) > 0 {
		return fmt.Errorf("%w for member %x, which has left", errCorrupt, gone[0].Member)
	}
	return nil
}

// MayAdd says why no learner may be added now, or nil. The new member is
// counted as a voter that is down, so that the cluster keeps quorum even when
// it never comes up. That is etcd's own gate since 3.6.11
// (isConnectedToQuorumAfterAddingNewMemberSince).
//
// Beyond it an odd number of voters does not grow while one of them is
// unhealthy, as in cluster-api: the next voter would raise what quorum needs
// and not the failures that are tolerated. An even number does: that is a
// replacement under way, and refusing it would deadlock the repair of a
// cluster that lost two of five (cluster-api#10125).
func MayAdd(v View) error {
	if err := settled(v); err != nil {
		return err
	}
	if learners := v.learners(); len(learners) > 0 {
		return fmt.Errorf("%w: %s", errLearner, learners[0].label())
	}
	voters := v.voters()
	// etcd makes the same exception: one member cannot have a majority of two.
	if len(voters) == 1 && voters[0].Healthy {
		return nil
	}
	if have, need := healthy(voters), quorum(len(voters)+1); have < need {
		return fmt.Errorf("%w if the new member failed: of then %d voters %d must be healthy, and %d are (unhealthy: %s)",
			errQuorum, len(voters)+1, need, have, unhealthyNames(voters))
	}
	if names := unhealthyNames(voters); names != "" && len(voters)%2 == 1 {
		return fmt.Errorf("%w, and one more voter would tolerate no more failures: %s", errUnhealthy, names)
	}
	return nil
}

// MayRemove says why the member may not be removed now, or nil. What remains
// must hold quorum. A member that works is only let go when every survivor
// works too, because it may be what carries the cluster (cluster-api refuses
// the same); one that is dead carries nothing, and one look that found it
// unhealthy does not make it dead. A CORRUPT member may go when it
// is the only one, and only when every survivor works: what was promised must
// be on them, because its own copy proves nothing.
func MayRemove(v View, id uint64) error {
	target, ok := v.member(id)
	if !ok {
		return errNotListed
	}
	if _, led := v.member(v.Leader); !led {
		return errNoLeader
	}
	if target.Learner {
		return nil
	}
	if err := uncorrupted(v, id); err != nil {
		return err
	}
	rest := except(v.voters(), id)
	if len(rest) == 0 {
		return errLastMember
	}
	have, need := healthy(rest), quorum(len(rest))
	if have < need {
		return fmt.Errorf("%w: of the remaining %d voters %d must be healthy, and %d are (unhealthy: %s)",
			errQuorum, len(rest), need, have, unhealthyNames(rest))
	}
	if (!target.Dead || target.has(alarmCorrupt)) && have < len(rest) {
		return fmt.Errorf("%w: %s", errUnhealthy, unhealthyNames(rest))
	}
	return nil
}

// MayRestart says why the member may not be restarted now, or nil. A member
// that is not healthy has nothing to lose. Of one or two voters each is needed
// for quorum, so a short interruption cannot be avoided there; it is taken
// only when the other one is healthy. Not every other member has to be
// healthy where quorum holds without: that would forbid all maintenance as
// long as one machine is dead (kubernetes/kubernetes#138403).
func MayRestart(v View, id uint64) error {
	target, ok := v.member(id)
	if !ok {
		return errNotListed
	}
	if !target.Healthy || target.Learner {
		return nil
	}
	if err := settled(v); err != nil {
		return err
	}
	voters := v.voters()
	rest := except(voters, id)
	if len(voters) <= 2 {
		if healthy(rest) < len(rest) {
			return fmt.Errorf("%w: %s", errUnhealthy, unhealthyNames(rest))
		}
		return nil
	}
	if have, need := healthy(rest), quorum(len(voters)); have < need {
		return fmt.Errorf("%w while it restarts: %d of %d voters have to stay healthy, and without it only %d would be (unhealthy: %s)",
			errQuorum, need, len(voters), have, unhealthyNames(rest))
	}
	return nil
}

// allHealthy says which member is not healthy, or nil.
func allHealthy(v View) error {
	if err := settled(v); err != nil {
		return err
	}
	if names := unhealthyNames(v.Members); names != "" {
		return fmt.Errorf("%w: %s", errUnhealthy, names)
	}
	return nil
}

// BestTransferee picks the voter that leadership should go to: healthy, with
// data that nobody doubts, and of those the one furthest in the log; the name
// decides a tie.
func BestTransferee(v View, from uint64) (Member, bool) {
	var best Member
	found := false
	for _, m := range except(v.voters(), from) {
		if !m.Healthy || m.has(alarmCorrupt) {
			continue
		}
		if !found || m.Index > best.Index || m.Index == best.Index && m.Name < best.Name {
			best, found = m, true
		}
	}
	return best, found
}
