package membership

import (
	"fmt"
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/release"
)

// UpgradePaths is where a cluster may go from what its members run.
type UpgradePaths struct {
	Versions   map[string]string // member name → version; "" = does not tell
	Uniform    bool              // every member tells its version, all tell the same, and they have agreed on its minor
	Healthy    bool              // every member is a healthy voter and has no alarm
	NextMinors []string          // "3.6": where all members may go now
	Issues     []string          // what is wrong with which member, in words
}

// anyPatch stands for the patches of a minor version that are still to come:
// a minor is open when its newest patch may follow, whatever that is.
const anyPatch = 999

// UpgradePathsFrom tells where the surveyed cluster may go. Patches of the minor that
// it runs are not listed: they may always follow.
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

// uniform: no upgrade is under way, or was left half done.
func (s Survey) uniform() bool {
	if len(s.Members) == 0 {
		return false
	}
	first := s.Members[0].Version
	minor, _, err := release.Parse(first)
	return err == nil && s.ClusterVersion == fmt.Sprintf("3.%d", minor) &&
		!slices.ContainsFunc(s.Members, func(m MemberStatus) bool { return m.Version != first })
}

// Problems is what keeps the member from being a healthy voter, in words.
func (m MemberStatus) Problems() []string {
	var words []string
	switch {
	case m.Trouble != "":
		words = append(words, m.Trouble)
	case !m.Healthy:
		words = append(words, "is not healthy")
	}
	if m.Learner {
		words = append(words, "is a learner: it has not been promoted")
	}
	for _, alarm := range m.Alarms {
		words = append(words, "has the alarm "+alarm)
	}
	return words
}

// Voting counts the voters, those of them that are healthy, and how many votes
// are needed.
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

// Leader is the name of the member that leads, "" where none does or is known.
func (s Survey) Leader() string {
	for _, m := range s.Members {
		if m.Leader {
			return m.Name
		}
	}
	return ""
}
