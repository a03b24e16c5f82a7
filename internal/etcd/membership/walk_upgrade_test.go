package membership

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/release"
)

// upgradeWalk is a cluster whose members run several versions.
type upgradeWalk struct {
	View
	agreed int // minor of the cluster version
	wrong  string
}

// TestUpgradesKeepTheClusterStartable takes random walks: members die and come back, and are brought to
// random versions if the rules allow it. A new version may fail to start, and the old one may be
// restored. No upgrade may cost quorum, and each member must be able to start with the version that it
// has: etcd refuses one that is older than the cluster version (MustDetectDowngrade), and one that is
// more than a minor version newer.
func TestUpgradesKeepTheClusterStartable(t *testing.T) {
	seed := time.Now().UnixNano()
	random := rand.New(rand.NewSource(seed))
	done := map[string]int{}
	for range 300 {
		w := upgradeWalk{View: filled(clusterOf([]string{"Lhh", "Lhhhh"}[random.Intn(2)]), 0, 0, 0), agreed: 5}
		for i := range w.Members {
			w.Members[i].Version = "3.5.35"
		}
		for range 100 {
			before := w.String()
			operation := w.step(random)
			done[operation]++
			if w.wrong != "" {
				t.Fatalf("seed %d: %s: %s in %s", seed, operation, w.wrong, before)
			}
			if random.Intn(2) == 0 { // the leader notices after a while
				w.agree()
			}
			if reason := w.unstartable(); reason != "" {
				t.Fatalf("seed %d: %s: %s in %s, which was %s", seed, operation, reason, w.String(), before)
			}
		}
	}
	for _, operation := range []string{
		"death", "revival", "upgrade", "failed upgrade", "rollback", "downgrade", "refused",
	} {
		if done[operation] == 0 {
			t.Errorf("seed %d: no %s in the whole run", seed, operation)
		}
	}
}

func (w *upgradeWalk) String() string {
	text := fmt.Sprintf("3.%d:", w.agreed)
	for _, m := range w.Members {
		text += " " + m.Version
		if !m.Healthy {
			text += " (down)"
		}
	}
	return text
}

// agree raises the cluster version as etcd's leader does, once every member runs a newer one.
func (w *upgradeWalk) agree() {
	lowest := 99
	for _, m := range w.Members {
		if !m.Healthy {
			return
		}
		lowest = min(lowest, minorOf(m.Version))
	}
	w.agreed = max(w.agreed, lowest)
}

// unstartable returns why a member could not start with its version, or "".
func (w *upgradeWalk) unstartable() string {
	for _, m := range w.Members {
		if minor := minorOf(m.Version); minor < w.agreed || minor > w.agreed+1 {
			return fmt.Sprintf("a member with %s cannot start", m.Version)
		}
	}
	return ""
}

func (w *upgradeWalk) hasQuorum() bool { return CountHealthy(w.Voters()) >= Quorum(len(w.Voters())) }

// survey returns what the members say. One that is down does not say its version.
func (w *upgradeWalk) survey() Survey {
	s := Survey{ClusterVersion: fmt.Sprintf("3.%d", w.agreed)}
	for _, m := range w.Members {
		if !m.Healthy {
			m.Version = ""
		}
		s.Members = append(s.Members, MemberStatus{Member: m, Address: m.Name})
	}
	return s
}

// step tries one random operation and returns its name.
func (w *upgradeWalk) step(random *rand.Rand) string {
	m := &w.Members[random.Intn(len(w.Members))]
	switch random.Intn(5) {
	case 0:
		if m.Healthy && CountHealthy(w.Voters()) > Quorum(len(w.Voters())) {
			m.Healthy, m.Trouble = false, "is down"
			w.elect()
			return "death"
		}
		return ""
	case 1:
		if !m.Healthy {
			m.Healthy, m.Trouble = true, ""
			w.elect()
			return "revival"
		}
		return ""
	}
	targets := []string{"3.5.34", "3.5.35", "3.6.16", "3.6.17", "3.7.0"}
	target, old := targets[random.Intn(len(targets))], m.Version
	if target == old {
		return ""
	}
	if MayUpgrade(w.survey(), target) != nil || MayBeginUpgrade(w.View, m.ID) != nil {
		return "refused"
	}
	had := w.hasQuorum()
	m.Healthy, m.Trouble, m.Version = false, "is down", target // while it starts, or because it does not
	w.elect()
	if had && !w.hasQuorum() {
		w.wrong = "an upgrade that fails costs quorum"
	}
	outcome := random.Intn(4)
	if outcome == 0 {
		return "failed upgrade"
	}
	m.Healthy, m.Trouble = true, ""
	w.elect()
	if outcome == 1 {
		m.Version = old
		return "rollback"
	}
	if minorOf(target) < minorOf(old) {
		return "downgrade"
	}
	return "upgrade"
}

func minorOf(version string) int {
	minor, _, _ := release.Parse(version)
	return minor
}

// elect keeps the leader, or makes another healthy voter the leader.
func (w *upgradeWalk) elect() {
	healthy := slices.DeleteFunc(w.Voters(), func(m Member) bool { return !m.Healthy })
	if !slices.ContainsFunc(healthy, func(m Member) bool { return m.ID == w.Leader }) && len(healthy) > 0 {
		w.Leader = healthy[0].ID
	}
}
