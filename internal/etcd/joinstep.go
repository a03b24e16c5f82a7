package etcd

import "fmt"

// stepKind is one step on a member's way into an existing cluster.
type stepKind int

const (
	stepRefuse    stepKind = iota
	stepArchive            // move data away that belongs to a member which no longer exists
	stepVerify             // find out whether an entry that stands in the way is dead
	stepRemove             // remove an entry that stands in the way
	stepAdd                // add as learner
	stepStart              // start the unit on what is there
	stepWait               // wait until it serves
	stepPromote            // promote through a voter
	stepEstablish          // remove bootstrap.env
	stepDone
)

func (k stepKind) String() string {
	return [...]string{"refuse", "archive", "verify", "remove", "add", "start", "wait", "promote", "establish", "done"}[k]
}

// step is what comes next, with the entry it concerns.
type step struct {
	Kind   stepKind
	ID     uint64
	Reason string
}

// self is the joining machine as far as the next step depends on it.
type self struct {
	Name     string
	PeerURL  string
	Data     bool   // its data directory holds a member
	MemberID uint64 // whose data that is; 0: not recorded
	Pending  bool   // bootstrap.env is there
	Running  bool
	Earlier  string // why that data is of an earlier cluster; "": it is not
}

// nextStep decides from the cluster's own list and the machine what comes next
// on the way to an established voter. It is asked again after each step, so a
// process that was cut off anywhere continues where it stopped.
//
// Two invariants: data is only ever started under the member id it was written
// under, and an id whose data is gone is never started again but removed first
// (an emptied member under its old id makes the leader panic or loses votes it
// has given: etcd-io/etcd#10254, #21178). A voter goes only when it is known to
// be dead.
func nextStep(v View, s self) step {
	entry, listed := v.at(s.PeerURL)
	if serves := listed && entry.Healthy && s.Running; s.Data && s.Earlier != "" && !serves {
		return step{Kind: stepArchive, Reason: s.Earlier}
	}
	if !listed {
		return stepUnlisted(v, s)
	}
	if s.Data && s.MemberID != 0 && s.MemberID != entry.ID {
		return step{Kind: stepArchive, Reason: fmt.Sprintf("it belongs to member %x, which the cluster no longer has", s.MemberID)}
	}
	if entry.Name != "" && entry.Name != s.Name && (entry.Healthy || s.Data) {
		return step{Kind: stepRefuse, ID: entry.ID, Reason: fmt.Sprintf("the cluster knows %s as member %q, not %q", s.PeerURL, entry.Name, s.Name)}
	}
	if !s.Data {
		if entry.Healthy && !s.Running {
			return step{Kind: stepRefuse, ID: entry.ID, Reason: fmt.Sprintf("member %q answers at %s, but its data is not in the data directory of this machine", entry.label(), s.PeerURL)}
		}
		if !s.Running {
			if !entry.Learner && !entry.Dead {
				return step{Kind: stepVerify, ID: entry.ID}
			}
			return step{Kind: stepRemove, ID: entry.ID, Reason: "it has never started, or its machine was rebuilt"}
		}
		return step{Kind: stepWait, ID: entry.ID}
	}
	return stepOwn(entry, s)
}

// stepUnlisted is the step of a machine whose peer URL the cluster does not know.
func stepUnlisted(v View, s self) step {
	if s.Data || s.Running {
		return step{Kind: stepArchive, Reason: "the cluster no longer lists its member"}
	}
	namesake, taken := v.named(s.Name)
	switch {
	case taken && namesake.Healthy:
		return step{Kind: stepRefuse, ID: namesake.ID, Reason: fmt.Sprintf("a member named %q is alive at %v", s.Name, namesake.PeerURLs)}
	case taken && !namesake.Dead:
		return step{Kind: stepVerify, ID: namesake.ID}
	case taken:
		return step{Kind: stepRemove, ID: namesake.ID, Reason: "it is the dead predecessor of the same name on another machine"}
	}
	return step{Kind: stepAdd}
}

// stepOwn is the step of a machine whose data belongs to the listed entry.
func stepOwn(entry Member, s self) step {
	switch {
	case entry.has(alarmCorrupt):
		return step{Kind: stepRemove, ID: entry.ID, Reason: "the alarm CORRUPT says that its data is wrong; it gets that of the others"}
	case !s.Running:
		return step{Kind: stepStart, ID: entry.ID}
	case !entry.Started():
		return step{Kind: stepWait, ID: entry.ID}
	case entry.Learner:
		return step{Kind: stepPromote, ID: entry.ID}
	case !entry.Healthy:
		return step{Kind: stepWait, ID: entry.ID}
	case s.Pending:
		return step{Kind: stepEstablish, ID: entry.ID}
	}
	return step{Kind: stepDone, ID: entry.ID}
}
