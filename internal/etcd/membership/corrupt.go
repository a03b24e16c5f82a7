package membership

import (
	"errors"
	"fmt"
)

// ErrAmbiguous means that members have different data, and the provider must not decide
// which copy is correct.
var ErrAmbiguous = errors.New("it cannot be determined which member has the correct data")

// MayReplaceCorrupt returns why the data of a member with the CORRUPT alarm may not be
// replaced by that of the others now, or nil. The replacement is a removal and a join. In
// addition to the rules of those, two other members must have identical data: etcd's
// periodic check compares followers with the leader and blames the follower, even if the
// leader is wrong.
func MayReplaceCorrupt(v View, id uint64) error {
	target, ok := v.Member(id)
	if !ok {
		return errNotListed
	}
	if !target.Learner && len(v.Voters()) < 3 {
		return fmt.Errorf("%w: there are no two other voters whose data could be compared", ErrAmbiguous)
	}
	return MayRemove(v, id)
}

// NeedsDecision reports whether a refusal is permanent: waiting cannot clear it.
func NeedsDecision(err error) bool { return errors.Is(err, ErrCorrupt) || errors.Is(err, ErrAmbiguous) }

// Disarmable returns the orphaned alarms whose cause is gone: no remaining member is
// CORRUPT, and every database has space. The caller compares the members' data before it
// disarms them.
func Disarmable(v View) []Alarm {
	var out []Alarm
	voters := v.Voters()
	if len(v.Raised(AlarmCorrupt)) == 0 && !v.CorruptUnnamed() && CountHealthy(voters) >= Quorum(len(voters)) {
		out = append(out, v.orphaned(AlarmCorrupt)...)
	}
	if len(v.WithoutSpace()) == 0 {
		out = append(out, v.orphaned(AlarmNoSpace)...)
	}
	return out
}

// RequireNotCorrupt returns an error if CORRUPT is raised for a member other than the
// given one. An alarm whose member has left counts until it is disarmed, because etcd
// refuses every write until then.
func RequireNotCorrupt(v View, not uint64) error {
	for _, m := range v.Raised(AlarmCorrupt) {
		if m.ID != not {
			return fmt.Errorf("%w for %s", ErrCorrupt, m.Label())
		}
	}
	if v.CorruptUnnamed() {
		return fmt.Errorf("%w, and etcd cannot determine for which member", ErrCorrupt)
	}
	if gone := v.orphaned(AlarmCorrupt); len(gone) > 0 {
		return fmt.Errorf("%w for member %x, which has left", ErrCorrupt, gone[0].Member)
	}
	return nil
}
