package membership

import (
	"fmt"
	"slices"
)

// Archived is a data directory that somebody has moved aside, as its own files say whose it is, and the member that
// is to go on with it.
type Archived struct {
	Member  uint64 // whose data it is
	Cluster uint64 // etcd's own ID
	Name    string // of the member that should be
	PeerURL string
	Running bool // a member runs on the machine

	StateMember  uint64 // the member in the state; 0: there is no state
	Machine      string // the ID of the machine that has the directory
	StateMachine string // the machine in the state; "": there is no state
}

// The next steps for an archived data directory that is not taken up.
const (
	joinInstead = "omit archived_data_dir: the member then joins with the data of the others. What only the archive has " +
		"can be read there (etcdutl snapshot status, or a restore of another cluster), and never votes again"
	nextOther = "name the directory that has the data of this member as it stopped last, or omit archived_data_dir"
)

// MayTakeUp decides whether a member may start from a data directory that was moved aside, under the ID that the data
// was written under. It returns why not, and what to do, or "".
//
// The invariant is that of a join: data is only started under its own ID, and an ID only with the newest data that it
// had. The cluster cannot tell how new the data is (it does not report what a member has acknowledged), so the machine
// must be the one that the member ran on last.
func MayTakeUp(v View, a Archived) (reason, next string) {
	entry, listed := v.Member(a.Member)
	switch {
	case a.Cluster != v.ClusterID:
		return fmt.Sprintf("it is data of etcd cluster %x, and the members serve cluster %x", a.Cluster, v.ClusterID),
			joinInstead
	case !listed:
		return fmt.Sprintf("it is the data of member %x, which was removed from the cluster: it can never vote again",
			a.Member), joinInstead
	case a.StateMember != 0 && a.StateMember != a.Member:
		return fmt.Sprintf("it is the data of member %x, and the state has member %x", a.Member, a.StateMember), nextOther
	case entry.Name != a.Name:
		return fmt.Sprintf("it is the data of member %q", entry.Label()), nextOther
	case !slices.Contains(entry.PeerURLs, a.PeerURL):
		return fmt.Sprintf("the cluster lists member %q at %v, which is another machine", entry.Name, entry.PeerURLs),
			"take it up on that machine; only a member with a volume moves to another one"
	case a.StateMachine != "" && a.StateMachine != a.Machine:
		return fmt.Sprintf("the member last ran on machine %s, and this is machine %s: it may not be the newest copy of "+
			"its data", a.StateMachine, a.Machine), joinInstead
	case entry.Healthy || a.Running:
		return fmt.Sprintf("member %q runs", entry.Name), "stop it (systemctl stop etcd) if its data was moved aside while " +
			"it ran, then apply again"
	case entry.Learner:
		return fmt.Sprintf("member %q is a learner, which has acknowledged nothing", entry.Name), joinInstead
	case entry.HasAlarm(AlarmCorrupt):
		return fmt.Sprintf("the CORRUPT alarm is raised for member %q", entry.Name), joinInstead
	}
	return "", ""
}
