package etcd

import (
	"errors"
	"fmt"
	"math/rand"
	"testing"
	"time"
)

// cluster makes a view from one letter per member: "L" the healthy leader,
// "h" a healthy voter, "d" a dead voter, "l" a learner.
func clusterOf(letters string) View {
	v := View{ClusterID: 1}
	for i, letter := range letters {
		m := Member{
			ID: uint64(i + 1), Name: fmt.Sprintf("cp%d", i+1), Version: "3.6.16",
			PeerURLs:   []string{fmt.Sprintf("https://10.0.0.%d:2380", i+1)},
			ClientURLs: []string{fmt.Sprintf("https://10.0.0.%d:2379", i+1)},
			Healthy:    letter != 'd', Learner: letter == 'l',
		}
		if letter == 'L' {
			v.Leader = m.ID
		}
		v.Members = append(v.Members, m)
	}
	return v
}

func TestMayAdd(t *testing.T) {
	for letters, want := range map[string]error{
		"L": nil, "Lh": nil, "Lhh": nil, "Lhhhh": nil,
		"Lhhd":  nil, // two of five lost, one already removed: must not deadlock
		"Lhhhd": errUnhealthy,
		"Lhd":   errQuorum, "Ld": errQuorum, "Lhhdd": errQuorum,
		"Lhl": errLearner, "hhh": errNoLeader, "d": errNoLeader,
	} {
		if err := MayAdd(clusterOf(letters)); !errors.Is(err, want) {
			t.Errorf("MayAdd(%s) = %v, want %v", letters, err, want)
		}
	}
}

func TestMayRemove(t *testing.T) {
	for _, c := range []struct {
		letters string
		id      uint64
		want    error
	}{
		{"Lhh", 1, nil},
		{"Lhh", 3, nil},
		{"Lh", 2, nil},
		{"L", 1, errLastMember},
		{"Lhd", 3, nil},            // the dead one first
		{"Lhd", 2, errQuorum},      // would leave one of two
		{"Ld", 2, nil},             // a dead one of two: one healthy remains
		{"Ld", 1, errQuorum},       // the last one that works
		{"Lhhhd", 2, errUnhealthy}, // quorum would hold, but spare it
		{"Lhhdd", 4, nil},          // two of five lost
		{"Lhhdd", 1, errQuorum},
		{"Lhl", 3, nil},
		{"hhh", 1, errNoLeader},
		{"Lhh", 9, errNotListed},
	} {
		if err := MayRemove(clusterOf(c.letters), c.id); !errors.Is(err, c.want) {
			t.Errorf("MayRemove(%s, %d) = %v, want %v", c.letters, c.id, err, c.want)
		}
	}
	corrupt := clusterOf("Lhh")
	corrupt.Members[2].Alarms = []string{"CORRUPT"}
	if err := MayRemove(corrupt, 2); !errors.Is(err, errCorrupt) {
		t.Errorf("removal beside a corrupt member = %v", err)
	}
}

func TestMayRestart(t *testing.T) {
	for _, c := range []struct {
		letters string
		id      uint64
		want    error
	}{
		{"Lhh", 1, nil},
		{"L", 1, nil},
		{"Lh", 2, nil},
		{"Ld", 1, errUnhealthy},
		{"Lhd", 2, errQuorum},
		{"Lhd", 3, nil},
		{"Lhhhd", 2, nil},
		{"Lhhdd", 2, errQuorum},
		{"hhh", 1, errNoLeader},
		{"Lhh", 9, errNotListed},
	} {
		if err := MayRestart(clusterOf(c.letters), c.id); !errors.Is(err, c.want) {
			t.Errorf("MayRestart(%s, %d) = %v, want %v", c.letters, c.id, err, c.want)
		}
	}
}

func TestBestTransferee(t *testing.T) {
	v := clusterOf("Lhhdl")
	v.Members[1].Index, v.Members[2].Index, v.Members[3].Index, v.Members[4].Index = 7, 9, 99, 99
	if m, ok := BestTransferee(v, 1); !ok || m.ID != 3 {
		t.Errorf("transferee = %v %v, want the healthy voter with the highest index", m.ID, ok)
	}
	v.Members[1].Index = 9
	if m, _ := BestTransferee(v, 1); m.Name != "cp2" {
		t.Errorf("tie went to %s, want the first name", m.Name)
	}
	if _, ok := BestTransferee(clusterOf("Ld"), 1); ok {
		t.Error("leadership went to a dead member")
	}
}

func TestMayRunVersion(t *testing.T) {
	v := clusterOf("Lhh")
	v.Members[0].Version, v.Members[1].Version, v.Members[2].Version = "3.5.35", "3.6.16", "3.5.35"
	for version, wanted := range map[string]bool{"3.6.16": true, "3.5.35": true, "3.7.0": false} {
		if err := MayRunVersion(v, 1, version); (err == nil) != wanted {
			t.Errorf("member 1 to %s: %v", version, err)
		}
	}
	if err := MayRunVersion(v, 2, "3.5.35"); err == nil {
		t.Error("a downgrade by one minor was allowed")
	}
}

// TestRulesKeepQuorum takes random walks: machines die and come back as they
// like, operations happen only when the rules allow them, and no operation may
// turn a cluster that has quorum into one that has not.
func TestRulesKeepQuorum(t *testing.T) {
	seed := time.Now().UnixNano()
	random := rand.New(rand.NewSource(seed))
	done := map[string]int{}
	for range 300 {
		w := walk{View: clusterOf("Lhh"), next: 4}
		for range 100 {
			before := w.String()
			had := w.hasQuorum()
			operation := w.step(random)
			done[operation]++
			if had && operation != "" && operation != "death" && !w.hasQuorum() {
				t.Fatalf("seed %d: %s turned %s into %s", seed, operation, before, w.String())
			}
		}
	}
	for _, operation := range []string{"add", "promote", "remove", "restart", "death", "revival"} {
		if done[operation] == 0 {
			t.Errorf("seed %d: no %s in the whole run", seed, operation)
		}
	}
}

type walk struct {
	View
	next uint64
}

func (w *walk) hasQuorum() bool { return healthy(w.voters()) >= quorum(len(w.voters())) }

func (w *walk) String() string {
	text := ""
	for _, m := range w.Members {
		letter := map[bool]string{true: "h", false: "d"}[m.Healthy]
		if m.Learner {
			letter = "l" + letter
		}
		text += letter
	}
	return text
}

// elect makes any healthy voter the leader, or none without quorum.
func (w *walk) elect() {
	w.Leader = 0
	if m, ok := BestTransferee(w.View, 0); ok && w.hasQuorum() {
		w.Leader = m.ID
	}
}

// step tries one random operation and returns its name, or "" when refused.
func (w *walk) step(random *rand.Rand) string {
	defer w.elect()
	i := random.Intn(len(w.Members))
	m := &w.Members[i]
	switch random.Intn(6) {
	case 0:
		if len(w.Members) < 7 && MayAdd(w.View) == nil {
			w.Members = append(w.Members, Member{ID: w.next, Name: fmt.Sprint("m", w.next), Learner: true, Healthy: random.Intn(4) > 0})
			w.next++
			return "add"
		}
	case 1: // etcd promotes a learner only when it is in sync, that is healthy
		if m.Learner && m.Healthy && w.hasQuorum() {
			m.Learner = false
			return "promote"
		}
	case 2:
		if MayRemove(w.View, m.ID) == nil {
			w.Members = except(w.Members, m.ID)
			return "remove"
		}
	case 3:
		if MayRestart(w.View, m.ID) != nil || len(w.voters()) <= 2 {
			return "" // with two voters an interruption cannot be avoided
		}
		was := m.Healthy
		m.Healthy = false
		if was && !m.Learner && !w.hasQuorum() {
			return "restart" // seen by the caller as lost
		}
		m.Healthy = true
		return "restart"
	case 4:
		if m.Healthy {
			m.Healthy = false
			return "death"
		}
	case 5:
		if !m.Healthy {
			m.Healthy = true
			return "revival"
		}
	}
	return ""
}
