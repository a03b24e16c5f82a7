package etcd

import (
	"fmt"
	"slices"
)

// Ways is where a cluster may go from what its members run.
type Ways struct {
	Versions   map[string]string // member name → version; "" = does not tell
	Settled    bool              // every member tells its version, all tell the same, and they have agreed on its minor
	Healthy    bool              // every member is a healthy voter and has no alarm
	NextMinors []string          // "3.6": where all members may go now
	Issues     []string          // what is wrong with which member, in words
}

// anyPatch stands for the patches of a minor version that are still to come:
// a minor is open when its newest patch may follow, whatever that is.
const anyPatch = 999

// WaysFrom tells where the surveyed cluster may go. Patches of the minor that
// it runs are not listed: they may always follow.
func WaysFrom(s Survey) Ways {
	w := Ways{Versions: map[string]string{}, Healthy: len(s.Members) > 0}
	newest := -1
	for i, m := range s.Members {
		name := m.Name
		if name == "" {
			name = fmt.Sprintf("(never started, %d)", i+1)
		}
		w.Versions[name] = m.Version
		if words := m.Amiss(); len(words) > 0 {
			w.Healthy = false
			for _, word := range words {
				w.Issues = append(w.Issues, fmt.Sprintf("etcd member %s: %s", name, word))
			}
		}
		if minor, _, err := parseVersion(m.Version); err == nil {
			newest = max(newest, minor)
		}
	}
	w.Settled = s.settled()
	for minor := newest + 1; newest >= 0 && minor <= newestMinor; minor++ {
		if MayUpgrade(s, fmt.Sprintf("3.%d.%d", minor, anyPatch)) == nil {
			w.NextMinors = append(w.NextMinors, fmt.Sprintf("3.%d", minor))
		}
	}
	return w
}

// settled: no upgrade is under way, or was left half done.
func (s Survey) settled() bool {
	if len(s.Members) == 0 {
		return false
	}
	first := s.Members[0].Version
	minor, _, err := parseVersion(first)
	return err == nil && s.ClusterVersion == fmt.Sprintf("3.%d", minor) &&
		!slices.ContainsFunc(s.Members, func(m Runs) bool { return m.Version != first })
}

// Amiss is what keeps the member from being a healthy voter, in words.
func (m Runs) Amiss() []string {
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
