package membership

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"
	"time"
)

// TestRulesKeepQuorum takes random walks: machines die and come back at random, alarms are
// raised, operations happen only if the rules allow them. No operation may turn a cluster
// with quorum into one without, nor a cluster in which a quorum has good data into one in
// which it has not. A member that was added counts as a voter that is down until it has
// caught up. A restarted member may stay down. A view may be out of date: then etcd's own
// checks (strict-reconfig-check) decide about the present.
func TestRulesKeepQuorum(t *testing.T) {
	seed := time.Now().UnixNano()
	random := rand.New(rand.NewSource(seed))
	done := map[string]int{}
	for range 300 {
		w := walk{View: filled(clusterOf("Lhh"), 0, 0, 0), next: 4}
		for range 100 {
			before := w.String()
			had, sound := w.hasQuorum(), w.soundQuorum()
			operation := w.step(random)
			done[operation]++
			if w.outdated {
				done["outdated "+operation]++
			}
			if operation == "" || operation == "death" || operation == "corruption" {
				continue
			}
			w.seen = w.copied() // the next operation cannot begin before this one has ended
			if had && !w.hasQuorum() || sound && !w.outdated && !w.soundQuorum() {
				t.Fatalf("seed %d: %s turned %s into %s", seed, operation, before, w.String())
			}
			if operation == "add" && !w.hasQuorumIfJoiningFails() {
				t.Fatalf("seed %d: %s depends on a member that has not caught up", seed, w.String())
			}
			if w.wrong != "" {
				t.Fatalf("seed %d: %s: %s in %s", seed, operation, w.wrong, before)
			}
		}
	}
	for _, operation := range []string{
		"add", "promote", "remove", "restart", "failed restart", "death", "revival", "outdated add", "outdated remove",
		"corruption", "replace", "hand over", "shortage", "compact", "defragment", "disarm", "forget",
	} {
		if done[operation] == 0 {
			t.Errorf("seed %d: no %s in the whole run", seed, operation)
		}
	}
}

type walk struct {
	View
	next     uint64
	seen     View   // as after the last operation: machines may have died or come back since
	outdated bool   // the step was decided by what was seen
	wrong    string // what a decision got wrong, other than quorum
}

func (w *walk) copied() View {
	v := w.View
	v.Members, v.Orphans = slices.Clone(v.Members), slices.Clone(v.Orphans)
	return v
}

// known returns the view that the next step is decided by.
func (w *walk) known(random *rand.Rand) View {
	w.outdated = len(w.seen.Members) > 0 && random.Intn(3) == 0
	if w.outdated {
		return w.seen
	}
	return w.View
}

// hasQuorumIfJoiningFails counts a member that has not caught up as a voter that is down.
// etcd and MayAdd except the second member, which one voter cannot do without.
func (w *walk) hasQuorumIfJoiningFails() bool {
	voters := w.Voters()
	return len(voters) == 1 || CountHealthy(voters) >= Quorum(len(voters)+1)
}

// mayRemoveNow is etcd's own check of the present (mayRemoveMember): a member that is down may be
// removed; otherwise the remaining ones must have quorum.
func (w *walk) mayRemoveNow(m Member) bool {
	rest := Except(w.Voters(), m.ID)
	return m.Learner || len(rest) > 0 && (!m.Healthy || CountHealthy(rest) >= Quorum(len(rest)))
}

func (w *walk) hasQuorum() bool { return CountHealthy(w.Voters()) >= Quorum(len(w.Voters())) }

// soundQuorum reports whether a quorum works and has data without a CORRUPT alarm.
func (w *walk) soundQuorum() bool {
	sound := slices.DeleteFunc(w.Voters(), func(m Member) bool { return m.HasAlarm(AlarmCorrupt) })
	return CountHealthy(sound) >= Quorum(len(w.Voters()))
}

func (w *walk) String() string {
	text := ""
	for _, m := range w.Members {
		letter := map[bool]string{true: "h", false: "d"}[m.Healthy]
		if m.Learner {
			letter = "l" + letter
		}
		if m.HasAlarm(AlarmCorrupt) {
			letter += "!"
		}
		text += letter
	}
	return text
}

// elect keeps the leader, or makes any healthy voter the leader, including one with bad
// data. Without quorum there is none.
func (w *walk) elect(random *rand.Rand) {
	voters := slices.DeleteFunc(w.Voters(), func(m Member) bool { return !m.Healthy })
	switch {
	case !w.hasQuorum():
		w.Leader = 0
	case !slices.ContainsFunc(voters, func(m Member) bool { return m.ID == w.Leader }):
		w.Leader = voters[random.Intn(len(voters))].ID
	}
}

// step tries one random operation and returns its name, or "" if it was refused.
func (w *walk) step(random *rand.Rand) string {
	defer w.elect(random)
	w.outdated = false
	i := random.Intn(len(w.Members))
	m := &w.Members[i]
	switch random.Intn(10) {
	case 0:
		if len(w.Members) < 7 && MayAdd(w.known(random)) == nil && (!w.outdated || w.hasQuorumIfJoiningFails()) {
			w.join()
			return "add"
		}
	case 1: // etcd promotes a learner only if it is in sync, that is healthy; NextJoinStep promotes none that is CORRUPT
		if m.Learner && m.Healthy && !m.HasAlarm(AlarmCorrupt) && w.hasQuorum() {
			m.Learner = false
			return "promote"
		}
	case 2:
		if MayRemove(w.known(random), m.ID) == nil && (!w.outdated || w.mayRemoveNow(*m)) {
			w.leave(*m)
			return "remove"
		}
	case 3:
		if MayRestart(w.View, m.ID) != nil || len(w.Voters()) <= 2 {
			return "" // with two voters an interruption cannot be avoided
		}
		was := m.Healthy
		m.Healthy = false
		if was && !m.Learner && !w.hasQuorum() {
			return "restart" // the caller counts it as lost
		}
		if random.Intn(3) == 0 {
			return "failed restart" // it stays down
		}
		m.Healthy = true
		return "restart"
	case 4:
		if m.Healthy {
			m.Healthy, m.Dead = false, random.Intn(2) == 0
			return "death"
		}
	case 5:
		if !m.Healthy {
			m.Healthy, m.Dead = true, false
			return "revival"
		}
	default:
		return w.alarming(random, m)
	}
	return ""
}

// join adds a learner that has not caught up yet: a revival stands for that.
func (w *walk) join() {
	w.Members = append(w.Members, Member{
		ID: w.next, Name: fmt.Sprint("m", w.next), Learner: true, DBSize: 10, DBInUse: 10, DBQuota: 100,
	})
	w.next++
}

// leave removes a member from the list; its alarms stay.
func (w *walk) leave(m Member) {
	w.Members = Except(w.Members, m.ID)
	for _, name := range m.Alarms {
		w.Orphans = append(w.Orphans, Alarm{m.ID, name})
	}
}

// alarming raises an alarm or takes a step to repair one.
func (w *walk) alarming(random *rand.Rand, m *Member) string {
	switch random.Intn(6) {
	case 0:
		if random.Intn(3) == 0 && !m.HasAlarm(AlarmCorrupt) {
			m.Alarms = append(m.Alarms, AlarmCorrupt)
			return "corruption"
		}
	case 1:
		if !m.HasAlarm(AlarmNoSpace) {
			m.Alarms = append(m.Alarms, AlarmNoSpace)
			m.DBSize, m.DBInUse = 100, int64(10+random.Intn(90))
			return "shortage"
		}
	case 2:
		return w.replace(*m)
	case 3:
		alarms := Disarmable(w.View)
		w.Orphans = slices.DeleteFunc(w.Orphans, func(a Alarm) bool { return slices.Contains(alarms, a) })
		if len(alarms) > 0 {
			return "forget"
		}
	default:
		return w.relieve(random, m.ID)
	}
	return ""
}

// replace replaces a CORRUPT member: leadership moves, the member is removed, and joins
// again.
func (w *walk) replace(m Member) string {
	if !m.HasAlarm(AlarmCorrupt) || MayReplaceCorrupt(w.View, m.ID) != nil {
		return ""
	}
	if w.Leader == m.ID {
		return w.handOver(m.ID)
	}
	w.leave(m)
	w.join()
	return "replace"
}

func (w *walk) handOver(from uint64) string {
	to, ok := BestTransferee(w.View, from)
	if !ok {
		return ""
	}
	if to.HasAlarm(AlarmCorrupt) {
		w.wrong = "leadership goes to a CORRUPT member"
	}
	w.Leader = to.ID
	return "hand over"
}

// relieve takes the next step about NOSPACE.
func (w *walk) relieve(random *rand.Rand, id uint64) string {
	next := NextSpaceStep(w.View, id, SpaceAttempts{Compacted: map[uint64]bool{id: random.Intn(2) == 0}})
	i := slices.IndexFunc(w.Members, func(m Member) bool { return m.ID == next.ID })
	switch next.Kind {
	case SpaceCompact:
		w.Members[i].DBInUse = int64(10 + random.Intn(90))
	case SpaceMoveLeader:
		return w.handOver(next.ID)
	case SpaceDefragment:
		w.Members[i].Healthy = false
		if !w.hasQuorum() && len(w.Voters()) > 2 {
			w.wrong = "quorum is lost while it lasts"
		}
		w.Members[i].Healthy, w.Members[i].DBSize = true, w.Members[i].DBInUse
	case SpaceDisarm:
		for _, a := range next.Alarms {
			if m, listed := w.Member(a.Member); listed && !m.hasSpace() {
				w.wrong = "an alarm is disarmed that has its cause"
			}
		}
		w.disarm(next.Alarms)
	default:
		return ""
	}
	return next.Kind.String()
}

func (w *walk) disarm(alarms []Alarm) {
	gone := func(a Alarm) bool { return slices.Contains(alarms, a) }
	w.Orphans = slices.DeleteFunc(w.Orphans, gone)
	for i := range w.Members {
		m := &w.Members[i]
		m.Alarms = slices.DeleteFunc(m.Alarms, func(name string) bool { return gone(Alarm{m.ID, name}) })
	}
}
