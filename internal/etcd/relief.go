package etcd

import (
	"errors"
	"fmt"
	"slices"
)

// errFull: what the database holds does not fit its quota.
var errFull = errors.New("the database does not fit its quota")

// defaultQuota is etcd's own (storage.DefaultQuotaBytes), which it takes for zero.
const defaultQuota = 2 << 30

// fits reports whether a database of n bytes would leave a tenth of the quota
// free. With less, the next burst of writes would raise the alarm again.
func (m Member) fits(n int64) bool { return m.DBQuota < 0 || n <= m.DBQuota-m.DBQuota/10 }

// roomy reports whether the member's database has room.
func (m Member) roomy() bool { return m.fits(m.DBSize) }

// cramped lists the members whose database has no room. One that does not
// answer is not known to be.
func (v View) cramped() []Member {
	return slices.DeleteFunc(slices.Clone(v.Members), func(m Member) bool { return !m.Healthy || m.roomy() })
}

// withQuota fills in the quota that s wants where members do not tell theirs.
func (v View) withQuota(s Spec) View {
	quota := int64(wantedQuota)
	if text, set := s.ExtraArgs[quotaFlag]; set {
		quota = quotaByFlag(text)
	}
	v.Members = slices.Clone(v.Members)
	for i := range v.Members {
		if v.Members[i].DBQuota == 0 {
			v.Members[i].DBQuota = quota
		}
	}
	return v
}

// reliefKind is one step towards a cluster that accepts writes again.
type reliefKind int

const (
	reliefNone       reliefKind = iota
	reliefWait                  // not now: ask again until patience ends, then refuse
	reliefRefuse                // there is nothing more to gain
	reliefCompact               // drop history
	reliefHandOver              // move leadership off the member
	reliefDefragment            // give the member's free pages back
	reliefDisarm                // of this member's alarm and of orphans
)

func (k reliefKind) String() string {
	return [...]string{"none", "wait", "refuse", "compact", "hand over", "defragment", "disarm"}[k]
}

// relief is what comes next, with what it concerns.
type relief struct {
	Kind   reliefKind
	ID     uint64
	Alarms []Alarm
	Cause  error
}

// compaction is what has come of it so far.
type compaction int

const (
	notCompacted compaction = iota
	compactedNow
	compactedBefore // there was no history to drop
)

// effort is what this process has done already. It only saves repetitions: a
// process that knows of none of it comes to the same end.
type effort struct {
	compaction   compaction
	defragmented map[uint64]bool
}

// nextRelief decides what the member id does next about NOSPACE: for its own
// alarm, and for those that belong to nobody. Only what is needed is done:
// free pages are given back by a defragmentation; only when what is in use
// does not fit either is history dropped before. The alarm goes last, and only
// when there is room: etcd would raise it again at the next write.
func nextRelief(v View, id uint64, done effort) relief {
	me, listed := v.member(id)
	if !listed || !me.has(alarmSpace) && len(v.orphaned(alarmSpace)) == 0 {
		return relief{}
	}
	if err := settled(v); err != nil {
		return relief{Kind: reliefWait, Cause: err} // nothing can be compacted or disarmed
	}
	if !me.Healthy {
		return relief{Kind: reliefWait, Cause: fmt.Errorf("%s %s", me.label(), me.Trouble)}
	}
	if !me.roomy() {
		return makeRoom(v, me, done)
	}
	if other, ok := unnoticed(v, id, done); ok {
		if done.compaction == notCompacted && !other.fits(other.DBInUse) {
			return relief{Kind: reliefCompact, ID: id}
		}
		return outage(v, other)
	}
	if alarms := forgettableSpace(v, me); len(alarms) > 0 {
		return relief{Kind: reliefDisarm, Alarms: alarms}
	}
	return relief{} // the orphan waits for the Update of the member that has no room
}

// makeRoom is the next step for a member without room.
func makeRoom(v View, m Member, done effort) relief {
	gain := m.DBSize - m.DBInUse
	switch {
	case done.compaction == notCompacted && !m.fits(m.DBInUse):
		return relief{Kind: reliefCompact, ID: m.ID}
	case done.defragmented[m.ID], done.compaction == compactedBefore && gain < m.DBQuota/100:
		return relief{Kind: reliefRefuse, Cause: fmt.Errorf("%w: %s", errFull, m.sizes())}
	}
	return outage(v, m)
}

// unnoticed is another member that is as full and has no alarm of its own yet,
// because etcd raises it only for the member that a write came to. It would
// raise it as soon as writes are accepted. One that cannot be helped now is
// left to its own alarm.
func unnoticed(v View, id uint64, done effort) (Member, bool) {
	var last Member
	found := false
	for _, m := range except(v.cramped(), id) {
		helps := m.fits(m.DBInUse) || done.compaction != compactedBefore
		if m.has(alarmSpace) || done.defragmented[m.ID] || !helps || MayRestart(v, m.ID) != nil {
			continue
		}
		if m.ID != v.Leader {
			return m, true // followers first
		}
		last, found = m, true
	}
	return last, found
}

// outage leads to the defragmentation of a member, during which it answers
// nobody: by the rules of a restart.
func outage(v View, m Member) relief {
	if err := MayRestart(v, m.ID); err != nil {
		return relief{Kind: reliefWait, ID: m.ID, Cause: err}
	}
	if _, ok := BestTransferee(v, m.ID); ok && v.Leader == m.ID {
		return relief{Kind: reliefHandOver, ID: m.ID}
	}
	return relief{Kind: reliefDefragment, ID: m.ID}
}

// forgettableSpace are the alarms that a member with room may disarm.
func forgettableSpace(v View, me Member) []Alarm {
	var alarms []Alarm
	if me.has(alarmSpace) {
		alarms = append(alarms, Alarm{Member: me.ID, Name: alarmSpace})
	}
	for _, a := range forgettable(v) {
		if a.Name == alarmSpace {
			alarms = append(alarms, a)
		}
	}
	return alarms
}
