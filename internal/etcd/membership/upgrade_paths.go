package membership

import (
	"fmt"
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/release"
)

// UpgradePaths is the versions that a cluster may be upgraded to from those that its
// members run.
type UpgradePaths struct {
	Versions   map[string]string // member name → version; "" = unknown
	Uniform    bool              // every member reports the same version, and the cluster version has its minor version
	Healthy    bool              // every member is a healthy voter and has no alarm
	NextMinors []string          // "3.6": the minor versions that all members may be upgraded to now
	Issues     []string          // detected problems, with the member that has them
}

// anyPatch represents future patches of a minor version: a minor version is a possible
// target if its newest patch may follow, whatever that is.
const anyPatch = 999

// UpgradePathsFrom returns the upgrade paths of the surveyed cluster. Patches of the
// running minor version are not listed: they may always follow.
func UpgradePathsFrom(s Survey) UpgradePaths {
	w := UpgradePaths{Versions: map[string]string{}, Healthy: len(s.Members) > 0}
	newest := -1
	for i, m := range s.Members {
		name := m.Name
		if name == "" {
			name = fmt.Sprintf("(never started, %d)", i+1)
		}
		w.Versions[name] = m.Version
		if words := m.Problems(); len(words) > 0 {
			w.Healthy = false
			for _, word := range words {
				w.Issues = append(w.Issues, fmt.Sprintf("etcd member %s: %s", name, word))
			}
		}
		if minor, _, err := release.Parse(m.Version); err == nil {
			newest = max(newest, minor)
		}
	}
	w.Uniform = s.uniform()
	for minor := newest + 1; newest >= 0 && minor <= release.NewestMinor; minor++ {
		if MayUpgrade(s, fmt.Sprintf("3.%d.%d", minor, anyPatch)) == nil {
			w.NextMinors = append(w.NextMinors, fmt.Sprintf("3.%d", minor))
		}
	}
	return w
}

// uniform reports whether no upgrade is in progress or incomplete.
func (s Survey) uniform() bool {
	if len(s.Members) == 0 {
		return false
	}
	first := s.Members[0].Version
	minor, _, err := release.Parse(first)
	return err == nil && s.ClusterVersion == fmt.Sprintf("3.%d", minor) &&
		!slices.ContainsFunc(s.Members, func(m MemberStatus) bool { return m.Version != first })
}

// Problems describes what keeps the member from being a healthy voter.
func (m MemberStatus) Problems() []string {
	var words []string
	switch {
	case m.Trouble != "":
		words = append(words, m.Trouble)
	case !m.Healthy:
		words = append(words, "is unhealthy")
	}
	if m.Learner {
		words = append(words, "is a learner that has not been promoted")
	}
	for _, alarm := range m.Alarms {
		words = append(words, "has alarm "+alarm)
	}
	return words
}

// Voting returns the number of voters, of healthy voters, and of votes needed for quorum.
func (s Survey) Voting() (voters, healthy, needed int) {
	for _, m := range s.Members {
		if m.Learner {
			continue
		}
		voters++
		if m.Healthy {
			healthy++
		}
	}
	return voters, healthy, Quorum(voters)
}

// Leader returns the name of the leader, "" if there is none or it is unknown.
func (s Survey) Leader() string {
	for _, m := range s.Members {
		if m.Leader {
			return m.Name
		}
	}
	return ""
}
