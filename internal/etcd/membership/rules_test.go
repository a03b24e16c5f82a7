package membership

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

// clusterOf creates a view from one letter per member: "L" the healthy leader, "h" a
// healthy voter, "d" a dead voter, "s" one that did not answer, "l" a learner.
func clusterOf(letters string) View {
	v := View{ClusterID: 1}
	for i, letter := range letters {
		m := Member{
			ID: uint64(i + 1), Name: fmt.Sprintf("cp%d", i+1), Version: "3.6.16",
			PeerURLs:   []string{fmt.Sprintf("https://10.0.0.%d:2380", i+1)},
			ClientURLs: []string{fmt.Sprintf("https://10.0.0.%d:2379", i+1)},
			Healthy:    letter != 'd' && letter != 's', Dead: letter == 'd', Learner: letter == 'l',
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
		"Lhhhd": ErrUnhealthy,
		"Lhd":   errQuorum, "Ld": errQuorum, "Lhhdd": errQuorum,
		"Lhl": ErrLearner, "hhh": errNoLeader, "d": errNoLeader,
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
		{"L", 1, ErrLastMember},
		{"Lhd", 3, nil},            // the dead one first
		{"Lhd", 2, errQuorum},      // would leave one of two
		{"Ld", 2, nil},             // a dead one of two: one healthy remains
		{"Ld", 1, errQuorum},       // the last one that works
		{"Lhhhd", 2, ErrUnhealthy}, // quorum would remain, but the member is spared
		{"Lhhdd", 4, nil},          // two of five lost
		{"Lhhsd", 4, ErrUnhealthy}, // one of them may only be slow
		{"Lhs", 3, nil},            // in any state of it: all others work
		{"Lhhdd", 1, errQuorum},
		{"Lhl", 3, nil},
		{"hhh", 1, errNoLeader},
		{"Lhh", 9, errNotListed},
	} {
		if err := MayRemove(clusterOf(c.letters), c.id); !errors.Is(err, c.want) {
			t.Errorf("MayRemove(%s, %d) = %v, want %v", c.letters, c.id, err, c.want)
		}
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
		{"Ld", 1, ErrUnhealthy},
		{"Lhd", 2, errQuorum},
		{"Lhd", 3, nil},
		{"Lhhhd", 2, nil},
		{"Lhhdd", 2, errQuorum},
		{"Ldd", 3, nil}, // it has nothing to lose
		{"Lhs", 3, nil},
		{"Lds", 3, errQuorum}, // it voted, or nobody could have answered
		{"Lhss", 3, errQuorum},
		{"Ls", 2, nil}, // as if it were healthy
		{"s", 1, nil},
		{"hhl", 3, nil}, // a learner has no vote
		{"hhh", 1, errNoLeader},
		{"Lhh", 9, errNotListed},
	} {
		if err := MayRestart(clusterOf(c.letters), c.id); !errors.Is(err, c.want) {
			t.Errorf("MayRestart(%s, %d) = %v, want %v", c.letters, c.id, err, c.want)
		}
	}
}

// TestAnswering: one member that is silent is enough, and a learner does not count.
func TestAnswering(t *testing.T) {
	silent := func(v View, ids ...uint64) View {
		for i, m := range v.Members {
			if slices.Contains(ids, m.ID) {
				v.Members[i].Version = ""
			}
		}
		return v
	}
	for name, c := range map[string]struct {
		view View
		want bool
	}{
		"all healthy":         {clusterOf("Lhh"), false},
		"one answers":         {clusterOf("Lhs"), true},
		"one is silent":       {silent(clusterOf("Lhs"), 3), false},
		"one of two answers":  {silent(clusterOf("hss"), 3), false},
		"a learner is silent": {silent(clusterOf("Lhsl"), 4), true},
	} {
		if got := c.view.Answering(); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestRequireAllHealthy(t *testing.T) {
	corrupt := clusterOf("Lhh")
	corrupt.Members[1].Alarms = []string{AlarmCorrupt}
	silentLearner := clusterOf("Lhl")
	silentLearner.Members[2].Healthy = false
	for _, c := range []struct {
		name string
		view View
		want error
	}{
		{"all are", clusterOf("Lhh"), nil},
		{"a learner is too", clusterOf("Lhl"), nil},
		{"one is dead", clusterOf("Lhd"), ErrUnhealthy},
		{"a learner is not", silentLearner, ErrUnhealthy},
		{"nobody leads", clusterOf("hhh"), errNoLeader},
		{"one is CORRUPT", corrupt, ErrCorrupt},
	} {
		if err := RequireAllHealthy(c.view); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

func TestLookup(t *testing.T) {
	v := clusterOf("Lhh")
	for i, want := range v.Members {
		if m, ok := v.Member(want.ID); !ok || m.ID != want.ID {
			t.Errorf("member %d by its ID: %d, %v", i, m.ID, ok)
		}
		if m, ok := v.ByPeerURL(want.PeerURLs[0]); !ok || m.ID != want.ID {
			t.Errorf("member %d by its peer URL: %d, %v", i, m.ID, ok)
		}
		if m, ok := v.ByName(want.Name); !ok || m.ID != want.ID {
			t.Errorf("member %d by its name: %d, %v", i, m.ID, ok)
		}
	}
	_, byID := v.Member(9)
	_, byURL := v.ByPeerURL("https://10.0.0.9:2380")
	_, byName := v.ByName("cp9")
	if byID || byURL || byName {
		t.Errorf("a member was found that is not listed: %v, %v, %v", byID, byURL, byName)
	}
}

func TestHandsOver(t *testing.T) {
	for _, c := range []struct {
		cluster string
		id      uint64
		want    bool
	}{
		{"Lh", 1, true},
		{"hLh", 2, true},
		{"hLh", 1, false}, // a follower
		{"Lhh", 9, false}, // not listed
		{"L", 1, false},   // nobody else
		{"Ll", 1, false},  // a learner leads nothing
	} {
		if got := HandsOver(clusterOf(c.cluster), c.id); got != c.want {
			t.Errorf("%s: member %d hands over: %v, want %v", c.cluster, c.id, got, c.want)
		}
	}
	silent := clusterOf("Lhh")
	silent.Members[0].Healthy = false
	if HandsOver(silent, 1) {
		t.Error("a leader that answers no client was asked to hand over")
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
	slices.Reverse(v.Members)
	v.Members[2].Index = 11
	if m, _ := BestTransferee(v, 1); m.ID != 3 {
		t.Errorf("leadership went to %s, want the highest index whatever the name", m.Name)
	}
	if _, ok := BestTransferee(clusterOf("Ld"), 1); ok {
		t.Error("leadership went to a dead member")
	}
}
