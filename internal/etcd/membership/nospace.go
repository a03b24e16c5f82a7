package membership

import (
	"errors"
	"fmt"
	"slices"
)

// errQuotaExceeded: what the database holds does not fit its quota.
var errQuotaExceeded = errors.New("the database does not fit its quota")

// fits reports whether a database of n bytes would leave a tenth of the quota
// free. With less, the next burst of writes would raise the alarm again.
func (m Member) fits(n int64) bool { return m.DBQuota < 0 || n <= m.DBQuota-m.DBQuota/10 }

// hasSpace reports whether the member's database has room.
func (m Member) hasSpace() bool { return m.fits(m.DBSize) }

// WithoutSpace lists the members whose database has no room. One that does not
// answer is not known to be.
func (v View) WithoutSpace() []Member {
	return slices.DeleteFunc(slices.Clone(v.Members), func(m Member) bool { return !m.Healthy || m.hasSpace() })
}

// SpaceStepKind is one step towards a cluster that accepts writes again.
type SpaceStepKind int

// The steps of handling NOSPACE.
const (
	SpaceNone       SpaceStepKind = iota
	SpaceWait                     // not now: ask again until patience ends, then refuse
	SpaceRefuse                   // there is nothing more to gain
	SpaceCompact                  // drop history
	SpaceMoveLeader               // move leadership off the member
	SpaceDefragment               // give the member's free pages back
	SpaceDisarm                   // of this member's alarm and of orphans
)

func (k SpaceStepKind) String() string {
	return [...]string{"none", "wait", "refuse", "compact", "hand over", "defragment", "disarm"}[k]
}

// SpaceStep is what comes next, with what it concerns.
type SpaceStep struct {
	Kind   SpaceStepKind
	ID     uint64
	Alarms []Alarm
	Cause  error
}

// compaction is what has come of it so far.
type compaction int

// The results of a compaction.
const (
	notCompacted compaction = iota
	CompactedNow
	CompactedBefore // there was no history to drop
)

// SpaceAttempts is what this process has done already. It only saves repetitions: a
// process that knows of none of it comes to the same end.
type SpaceAttempts struct {
	Compaction   compaction
	Defragmented map[uint64]bool
}

// NextSpaceStep decides what the member id does next about NOSPACE: for its own
// alarm, and for those that belong to nobody. Only what is needed is done:
// free pages are given back by a defragmentation; only when what is in use
// does not fit either is history dropped before. The alarm goes last, and only
// when there is room: etcd would raise it again at the next write.
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
		if done.Compaction == notCompacted && !other.fits(other.DBInUse) {
			return SpaceStep{Kind: SpaceCompact, ID: id}
		}
		return defragmentStep(v, other)
	}
	if alarms := disarmableSpace(v, me); len(alarms) > 0 {
		return SpaceStep{Kind: SpaceDisarm, Alarms: alarms}
	}
	return SpaceStep{} // the orphan waits for the Update of the member that has no room
}

// makeRoom is the next step for a member without room.
func makeRoom(v View, m Member, done SpaceAttempts) SpaceStep {
	gain := m.DBSize - m.DBInUse
	switch {
	case done.Compaction == notCompacted && !m.fits(m.DBInUse):
		return SpaceStep{Kind: SpaceCompact, ID: m.ID}
	case done.Defragmented[m.ID], done.Compaction == CompactedBefore && gain < m.DBQuota/100:
		return SpaceStep{Kind: SpaceRefuse, Cause: fmt.Errorf("%w: %s", errQuotaExceeded, m.Sizes())}
	}
	return defragmentStep(v, m)
}

// nextFull is another member that is as full and has no alarm of its own yet,
// because etcd raises it only for the member that a write came to. It would
// raise it as soon as writes are accepted. One that cannot be helped now is
// left to its own alarm.
func nextFull(v View, id uint64, done SpaceAttempts) (Member, bool) {
	var last Member
	found := false
	for _, m := range Except(v.WithoutSpace(), id) {
		helps := m.fits(m.DBInUse) || done.Compaction != CompactedBefore
		if m.HasAlarm(AlarmNoSpace) || done.Defragmented[m.ID] || !helps || MayRestart(v, m.ID) != nil {
			continue
		}
		if m.ID != v.Leader {
			return m, true // followers first
		}
		last, found = m, true
	}
	return last, found
}

// defragmentStep leads to the defragmentation of a member, during which it answers
// nobody: by the rules of a restart.
func defragmentStep(v View, m Member) SpaceStep {
	if err := MayRestart(v, m.ID); err != nil {
		return SpaceStep{Kind: SpaceWait, ID: m.ID, Cause: err}
	}
	if _, ok := BestTransferee(v, m.ID); ok && v.Leader == m.ID {
		return SpaceStep{Kind: SpaceMoveLeader, ID: m.ID}
	}
	return SpaceStep{Kind: SpaceDefragment, ID: m.ID}
}

// disarmableSpace are the alarms that a member with room may disarm.
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
