package membership

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
)

// WithQuota sets the quota of members that do not report theirs (etcd 3.5).
func (v View) WithQuota(quota int64) View {
	v.Members = slices.Clone(v.Members)
	for i := range v.Members {
		if v.Members[i].DBQuota == 0 {
			v.Members[i].DBQuota = quota
		}
	}
	return v
}

// View is a cluster as its members describe it at one moment.
type View struct {
	ClusterID uint64
	Members   []Member // sorted by name, then ID
	Leader    uint64   // 0: none, or the members disagree
	Orphans   []Alarm  // alarms of members that are not listed
	// Downgrade is the minor version to which a downgrade is enabled: "3.5". "" if none is, and if every
	// member that answers runs 3.5, which does not report it: etcd ends it when the last one does.
	Downgrade string
}

// Member returns the entry with this ID.
func (v View) Member(id uint64) (Member, bool) {
	i := slices.IndexFunc(v.Members, func(m Member) bool { return m.ID == id })
	if i < 0 {
		return Member{}, false
	}
	return v.Members[i], true
}

// ByPeerURL returns the entry with this peer URL. etcd allows only one.
func (v View) ByPeerURL(peerURL string) (Member, bool) {
	i := slices.IndexFunc(v.Members, func(m Member) bool { return slices.Contains(m.PeerURLs, peerURL) })
	if i < 0 {
		return Member{}, false
	}
	return v.Members[i], true
}

// ByName returns the entry with this name.
func (v View) ByName(name string) (Member, bool) {
	i := slices.IndexFunc(v.Members, func(m Member) bool { return m.Name == name })
	if i < 0 {
		return Member{}, false
	}
	return v.Members[i], true
}

// Voters returns the members that vote.
func (v View) Voters() []Member {
	return slices.DeleteFunc(slices.Clone(v.Members), func(m Member) bool { return m.Learner })
}

// Answering reports whether a voter is unhealthy, and each unhealthy one answers, as a member does that has lost its
// leader or reads its log on a busy machine. It may recover by itself.
func (v View) Answering() bool {
	unhealthy := false
	for _, m := range v.Voters() {
		if m.Healthy {
			continue
		}
		if m.Version == "" {
			return false
		}
		unhealthy = true
	}
	return unhealthy
}

// Learners returns the members that do not vote yet.
func (v View) Learners() []Member {
	return slices.DeleteFunc(slices.Clone(v.Members), func(m Member) bool { return !m.Learner })
}

// Quorum returns the number of votes that n voters need.
func Quorum(n int) int { return n/2 + 1 }

// CountHealthy returns the number of healthy members.
func CountHealthy(members []Member) int {
	n := 0
	for _, m := range members {
		if m.Healthy {
			n++
		}
	}
	return n
}

// Except returns the members without the one with this ID.
func Except(members []Member, id uint64) []Member {
	return slices.DeleteFunc(slices.Clone(members), func(m Member) bool { return m.ID == id })
}

func unhealthyNames(members []Member) string {
	var names []string
	for _, m := range members {
		if !m.Healthy {
			names = append(names, m.Label())
		}
	}
	return strings.Join(names, ", ")
}

// WithDead returns v with the member marked as dead, unless it is healthy.
func (v View) WithDead(id uint64) View {
	members := make([]Member, len(v.Members))
	for i, m := range v.Members {
		m.Dead = m.Dead || m.ID == id && !m.Healthy
		members[i] = m
	}
	v.Members = members
	return v
}

// String returns the view as a table, for diagnostics.
func (v View) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tID\tPEER URL\tROLE\tVERSION\tHEALTH")
	for _, m := range v.Members {
		role := "follower"
		switch {
		case m.Learner:
			role = "learner"
		case m.ID == v.Leader:
			role = "leader"
		}
		health := "healthy"
		if !m.Healthy {
			health = m.Trouble
		}
		if len(m.Alarms) > 0 {
			health += ", alarm " + strings.Join(m.Alarms, ", ")
			if m.HasAlarm(AlarmNoSpace) && m.DBSize > 0 {
				health += ": " + m.Sizes()
			}
		}
		fmt.Fprintf(w, "%s\t%x\t%s\t%s\t%s\t%s\n", cmp.Or(m.Name, "-"), m.ID, strings.Join(m.PeerURLs, ","), role,
			cmp.Or(m.Version, "-"), health)
	}
	_ = w.Flush() // into memory
	for _, a := range v.Orphans {
		fmt.Fprintln(&b, a)
	}
	return b.String()
}
