package membership

import (
	"errors"
	"fmt"
)

// ErrAmbiguous: members hold different data, and nothing here may decide whose is right.
var ErrAmbiguous = errors.New("it cannot be told whose data is right")

// MayReplaceCorrupt says why a member with the CORRUPT alarm may not be given
// the data of the others now, or nil. That is a removal and a join; beyond the
// rules of those, two others have to vouch for each other: etcd's periodic
// check compares followers with the leader and accuses the follower, also
// where it is the leader who is wrong.
func MayReplaceCorrupt(v View, id uint64) error {
	target, ok := v.Member(id)
	if !ok {
		return errNotListed
	}
	if !target.Learner && len(v.Voters()) < 3 {
		return fmt.Errorf("%w: there are no two other voters that could vouch for each other", ErrAmbiguous)
	}
	return MayRemove(v, id)
}

// NeedsDecision reports whether a refusal is one that no waiting can lift.
func NeedsDecision(err error) bool { return errors.Is(err, ErrCorrupt) || errors.Is(err, ErrAmbiguous) }

// Disarmable are the orphaned alarms that have lost their cause: no member
// that is left is CORRUPT, every database has room. The data is compared
// before it is believed.
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

// RequireNotCorrupt says for which member other than the given one CORRUPT is
// raised. An alarm whose member has left counts until it is disarmed: etcd
// refuses every write as long.
func RequireNotCorrupt(v View, not uint64) error {
	for _, m := range v.Raised(AlarmCorrupt) {
		if m.ID != not {
			return fmt.Errorf("%w for %s", ErrCorrupt, m.Label())
		}
	}
	if v.CorruptUnnamed() {
		return fmt.Errorf("%w, and etcd cannot tell for which member", ErrCorrupt)
	}
	if gone := v.orphaned(AlarmCorrupt); len(gone) > 0 {
		return fmt.Errorf("%w for member %x, which has left", ErrCorrupt, gone[0].Member)
	}
	return nil
}
