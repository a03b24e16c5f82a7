package membership

import (
	"errors"
	"fmt"
	"slices"
)

// errQuotaExceeded means that the contents of the database do not fit its quota.
var errQuotaExceeded = errors.New("the database does not fit into its quota")

// fits reports whether a database of n bytes would leave a tenth of the quota free. With
// less, the next burst of writes would raise the alarm again.
func (m Member) fits(n int64) bool { return m.DBQuota < 0 || n <= m.DBQuota-m.DBQuota/10 }

// hasSpace reports whether the member's database has space.
func (m Member) hasSpace() bool { return m.fits(m.DBSize) }

// WithoutSpace returns the members whose database has no space. A member that does not
// answer is not among them.
func (v View) WithoutSpace() []Member {
	return slices.DeleteFunc(slices.Clone(v.Members), func(m Member) bool { return !m.Healthy || m.hasSpace() })
}

// SpaceStepKind is one step towards a cluster that accepts writes again.
type SpaceStepKind int

// The steps of handling NOSPACE.
const (
	SpaceNone       SpaceStepKind = iota
	SpaceWait                     // not now: decide again until the waiting time is over, then refuse
	SpaceRefuse                   // no more space can be reclaimed
	SpaceCompact                  // drop history
	SpaceMoveLeader               // move leadership off the member
	SpaceDefragment               // release the member's free pages
	SpaceDisarm                   // disarm this member's alarm and orphaned ones
)

func (k SpaceStepKind) String() string {
	return [...]string{"none", "wait", "refuse", "compact", "move leader", "defragment", "disarm"}[k]
}

// SpaceStep is the next step, with what it concerns.
type SpaceStep struct {
	Kind   SpaceStepKind
	ID     uint64
	Alarms []Alarm
	Cause  error
}

// SpaceAttempts is what this process has done already, by member. It only avoids
// repetitions: a process without this knowledge reaches the same result.
type SpaceAttempts struct {
	Compacted    map[uint64]bool // the member was asked to drop history, whether there was any or not
	Defragmented map[uint64]bool // since then
}

// NextSpaceStep decides what the member with the given ID does next about NOSPACE: for its
// own alarm, and for orphaned ones. Only necessary steps are taken. A defragmentation
// releases free pages. Only if the data in use does not fit either is history dropped
// first. The alarm is disarmed last, and only if there is space: etcd would raise it again
// at the next write.
//
// The size in use does not tell that a defragmentation is futile: etcd counts the pages
// that a compaction has freed as in use until the second commit after it (bbolt keeps
// them as pending), and with the alarm nothing is written that would be committed. So a
// member is defragmented once before it is given up.
func NextSpaceStep(v View, id uint64, done SpaceAttempts) SpaceStep {
	me, listed := v.Member(id)
	if !listed || !me.HasAlarm(AlarmNoSpace) && len(v.orphaned(AlarmNoSpace)) == 0 {
		return SpaceStep{}
	}
	if err := RequireStable(v); err != nil {
		return SpaceStep{Kind: SpaceWait, Cause: err} // nothing can be compacted or disarmed
	}
	if !me.Healthy {
		return SpaceStep{Kind: SpaceWait, Cause: fmt.Errorf("%s %s", me.Label(), me.Trouble)}
	}
	if !me.hasSpace() {
		return makeRoom(v, me, done)
	}
	if other, ok := nextFull(v, id, done); ok {
		return compactOrDefragment(v, other, done)
	}
	if alarms := disarmableSpace(v, me); len(alarms) > 0 {
		return SpaceStep{Kind: SpaceDisarm, Alarms: alarms}
	}
	return SpaceStep{} // the orphan waits for the Update of the member that has no space
}

// makeRoom returns the next step for a member without space.
func makeRoom(v View, m Member, done SpaceAttempts) SpaceStep {
	switch {
	case done.Defragmented[m.ID] && !done.Compacted[m.ID]: // what was in use did fit, and with new free pages does not
		return SpaceStep{Kind: SpaceCompact, ID: m.ID}
	case done.Defragmented[m.ID]:
		return SpaceStep{Kind: SpaceRefuse, Cause: fmt.Errorf("%w: %s", errQuotaExceeded, m.Sizes())}
	}
	return compactOrDefragment(v, m, done)
}

// compactOrDefragment drops history only if the free pages are not enough. The member
// itself is asked, because the answer comes when that member has deleted it.
func compactOrDefragment(v View, m Member, done SpaceAttempts) SpaceStep {
	if !done.Compacted[m.ID] && !m.fits(m.DBInUse) {
		return SpaceStep{Kind: SpaceCompact, ID: m.ID}
	}
	return defragmentStep(v, m)
}

// nextFull returns another member that has no space and no alarm of its own yet, because
// etcd raises the alarm only for the member that received a write. etcd would raise it as
// soon as writes are accepted. A member that cannot be repaired now is left until its own
// alarm is raised.
func nextFull(v View, id uint64, done SpaceAttempts) (Member, bool) {
	var last Member
	ok := false
	for _, m := range Except(v.WithoutSpace(), id) {
		if m.HasAlarm(AlarmNoSpace) || done.Defragmented[m.ID] || MayRestart(v, m.ID) != nil {
			continue
		}
		if m.ID != v.Leader {
			return m, true // followers first
		}
		last, ok = m, true
	}
	return last, ok
}

// defragmentStep returns the step that leads to the defragmentation of a member. The
// member does not answer while it is defragmented, so the restart rules apply.
func defragmentStep(v View, m Member) SpaceStep {
	if err := MayRestart(v, m.ID); err != nil {
		return SpaceStep{Kind: SpaceWait, ID: m.ID, Cause: err}
	}
	if _, ok := BestTransferee(v, m.ID); ok && v.Leader == m.ID {
		return SpaceStep{Kind: SpaceMoveLeader, ID: m.ID}
	}
	return SpaceStep{Kind: SpaceDefragment, ID: m.ID}
}

// disarmableSpace returns the alarms that a member with space may disarm.
func disarmableSpace(v View, me Member) []Alarm {
	var alarms []Alarm
	if me.HasAlarm(AlarmNoSpace) {
		alarms = append(alarms, Alarm{Member: me.ID, Name: AlarmNoSpace})
	}
	for _, a := range Disarmable(v) {
		if a.Name == AlarmNoSpace {
			alarms = append(alarms, a)
		}
	}
	return alarms
}
