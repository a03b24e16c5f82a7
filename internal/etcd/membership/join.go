package membership

import "fmt"

// JoinStepKind is one step of a member's join to an existing cluster.
type JoinStepKind int

// The steps of a join.
const (
	JoinRefuse    JoinStepKind = iota
	JoinArchive                // archive data of a member that no longer exists
	JoinVerify                 // find out whether an entry that blocks the join is dead
	JoinRemove                 // remove an entry that blocks the join
	JoinMove                   // change the peer URL of the member whose volume the machine has
	JoinAdd                    // add as learner
	JoinStart                  // start the unit with the existing data
	JoinWait                   // wait until it serves
	JoinPromote                // promote through a voter
	JoinEstablish              // remove bootstrap.env
	JoinDone
)

func (k JoinStepKind) String() string {
	return [...]string{
		"refuse", "archive", "verify", "remove", "move", "add", "start", "wait", "promote", "establish", "done",
	}[k]
}

// JoinStep is the next step, with the entry it concerns.
type JoinStep struct {
	Kind   JoinStepKind
	ID     uint64
	Reason string
	Next   string // of a refusal; "": the usual next step
}

// JoiningMember is the state of the joining machine that the next step depends on.
type JoiningMember struct {
	Name     string
	PeerURL  string
	Data     bool   // its data directory contains a member
	MemberID uint64 // the member that the data belongs to; 0: not recorded
	Pending  bool   // bootstrap.env exists
	Running  bool
	Volume   bool   // its data is on a volume, which moves from machine to machine
	Earlier  string // why that data is of an earlier cluster; "": it is not
}

// NextJoinStep decides from the cluster's own member list and the machine which step is
// next towards an established voter. It is called again after each step, so a process that
// was interrupted anywhere continues where it stopped.
//
// There are two invariants. Data is only ever started under the member ID it was written
// under. And an ID whose data is gone is never started again but removed first (an emptied
// member under its old ID makes the leader panic or loses votes it has given:
// etcd-io/etcd#10254, #21178). A voter is removed only if it is known to be dead. The data of
// a voter that serves is not archived on the word of its record, which may be an older one.
func NextJoinStep(v View, s JoiningMember) JoinStep {
	entry, listed := v.ByPeerURL(s.PeerURL)
	serves := listed && entry.Healthy && s.Running // as this entry, whatever its record says
	if s.Data && s.Earlier != "" && !serves {
		return JoinStep{Kind: JoinArchive, Reason: s.Earlier}
	}
	if !listed {
		return unlistedStep(v, s)
	}
	if s.Data && s.MemberID != 0 && s.MemberID != entry.ID {
		if there, elsewhere := v.Member(s.MemberID); elsewhere {
			return elsewhereStep(v, there, s)
		}
		if !serves || entry.Learner {
			return JoinStep{Kind: JoinArchive, Reason: fmt.Sprintf("it belongs to member %x, which is no longer in the cluster",
				s.MemberID)}
		}
	}
	if entry.Name != "" && entry.Name != s.Name && (entry.Healthy || s.Data) {
		return JoinStep{Kind: JoinRefuse, ID: entry.ID, Reason: fmt.Sprintf("the cluster lists %s as member %q, not %q",
			s.PeerURL, entry.Name, s.Name)}
	}
	if !s.Data {
		if entry.Healthy && !s.Running {
			return JoinStep{
				Kind: JoinRefuse, ID: entry.ID,
				Reason: fmt.Sprintf("member %q serves at %s, but its data is not in the data directory of this machine",
					entry.Label(), s.PeerURL),
			}
		}
		if !s.Running {
			if !entry.Learner && !entry.Dead {
				return JoinStep{Kind: JoinVerify, ID: entry.ID}
			}
			return JoinStep{Kind: JoinRemove, ID: entry.ID, Reason: "it never started, or its machine was rebuilt"}
		}
		if entry.Healthy && !s.Pending {
			return deletedStep(entry, s)
		}
		return JoinStep{Kind: JoinWait, ID: entry.ID}
	}
	return listedStep(entry, s)
}

// deletedStep returns the step of an established member that serves without its data directory. While its process runs,
// it has what it has acknowledged, and it is no dead member.
func deletedStep(entry Member, s JoiningMember) JoinStep {
	return JoinStep{
		Kind: JoinRefuse, ID: entry.ID,
		Reason: fmt.Sprintf("member %q serves at %s, and the data directory of this machine has no data of it: it was "+
			"deleted or moved away while etcd runs, or something is mounted over it", entry.Label(), s.PeerURL),
		Next: "if something is mounted over the data directory, unmount it and apply again. Otherwise replace the member " +
			"while the others serve (terraform apply -replace=…), which gives it their data. If it is the only one, do not " +
			"stop it: save a snapshot with etcdctl first",
	}
}

// unlistedStep returns the step of a machine whose peer URL the cluster does not know.
func unlistedStep(v View, s JoiningMember) JoinStep {
	if moved, there := v.Member(s.MemberID); there && s.Volume && s.Data {
		return moveStep(v, moved, s)
	}
	if there, listed := v.Member(s.MemberID); listed && (s.Data || s.Running) {
		return elsewhereStep(v, there, s)
	}
	if s.Data || s.Running {
		return JoinStep{Kind: JoinArchive, Reason: "its member is no longer in the cluster's member list"}
	}
	namesake, taken := v.ByName(s.Name)
	switch {
	case taken && namesake.Healthy:
		return JoinStep{Kind: JoinRefuse, ID: namesake.ID, Reason: fmt.Sprintf("a member named %q is running at %v", s.Name,
			namesake.PeerURLs)}
	case taken && !namesake.Dead:
		return JoinStep{Kind: JoinVerify, ID: namesake.ID}
	case taken:
		return JoinStep{Kind: JoinRemove, ID: namesake.ID, Reason: "it is the dead member of the same name on another " +
			"machine, which this one replaces"}
	}
	return JoinStep{Kind: JoinAdd}
}

// elsewhereStep returns the step of a machine that has a member which the cluster lists at another peer URL. The member
// may be serving. Only if it is dead is it removed, by the rules for that, and only after that is its data archived.
// What a volume has brought is never archived.
func elsewhereStep(v View, there Member, s JoiningMember) JoinStep {
	at := fmt.Sprintf("at %v and not at %s", there.PeerURLs, s.PeerURL)
	switch {
	case there.Healthy || s.Volume && s.Data:
		if _, taken := v.ByPeerURL(s.PeerURL); !taken {
			at += " (etcdctl member update sets it back)"
		}
		return JoinStep{Kind: JoinRefuse, ID: there.ID, Reason: fmt.Sprintf("the cluster lists the member of this machine, "+
			"%x, %s", there.ID, at)}
	case !there.Dead:
		return JoinStep{Kind: JoinVerify, ID: there.ID}
	}
	return JoinStep{Kind: JoinRemove, ID: there.ID, Reason: "it is the dead member of this machine, which the cluster " +
		"lists " + at}
}

// moveStep returns the step of a machine that has the volume of a member which the cluster lists at another machine.
// etcd corrupts a learner whose peer URL changes (etcd-io/etcd#21694).
func moveStep(v View, moved Member, s JoiningMember) JoinStep {
	switch {
	case moved.Healthy && !s.Running:
		return JoinStep{Kind: JoinRefuse, ID: moved.ID, Reason: fmt.Sprintf("member %q answers at %v, although its "+
			"volume is on this machine", moved.Label(), moved.PeerURLs)}
	case moved.Learner:
		return JoinStep{Kind: JoinRefuse, ID: moved.ID, Reason: fmt.Sprintf("member %q is a learner, and the address of a "+
			"learner cannot be changed", moved.Label())}
	case moved.Name != "" && moved.Name != s.Name:
		return JoinStep{Kind: JoinRefuse, ID: moved.ID, Reason: fmt.Sprintf("the data on the volume is that of member %q",
			moved.Label())}
	}
	return JoinStep{Kind: JoinMove, ID: moved.ID, Reason: fmt.Sprintf("it was at %v", moved.PeerURLs)}
}

// listedStep returns the step of a machine whose data belongs to the listed entry.
func listedStep(entry Member, s JoiningMember) JoinStep {
	switch {
	case entry.HasAlarm(AlarmCorrupt):
		return JoinStep{Kind: JoinRemove, ID: entry.ID, Reason: "the CORRUPT alarm is raised for it; its data is replaced " +
			"by that of the other members"}
	case !s.Running:
		return JoinStep{Kind: JoinStart, ID: entry.ID}
	case !entry.Started():
		return JoinStep{Kind: JoinWait, ID: entry.ID}
	case entry.Learner:
		return JoinStep{Kind: JoinPromote, ID: entry.ID}
	case !entry.Healthy:
		return JoinStep{Kind: JoinWait, ID: entry.ID}
	case s.Pending:
		return JoinStep{Kind: JoinEstablish, ID: entry.ID}
	}
	return JoinStep{Kind: JoinDone, ID: entry.ID}
}
