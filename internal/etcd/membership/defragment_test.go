package membership

import (
	"errors"
	"testing"
)

func TestNextDefragmentStep(t *testing.T) {
	loose := func(letters string) View { return filled(clusterOf(letters), 2, 100, 50) }
	done := SpaceAttempts{Defragmented: map[uint64]bool{2: true}}
	half, forced := Defragmentation{MinFree: 50}, Defragmentation{MinFree: 50, Force: true}
	for _, c := range []struct {
		name string
		view View
		d    Defragmentation
		done SpaceAttempts
		want SpaceStepKind
		why  error
	}{
		{name: "follower", view: loose("Lhh"), d: half, want: SpaceDefragment},
		{name: "leader", view: loose("hLh"), d: half, want: SpaceMoveLeader},
		{name: "done", view: loose("Lhh"), d: half, done: done},
		{name: "too little free", view: filled(clusterOf("Lhh"), 2, 100, 51), d: half},
		{name: "too little free, forced", view: filled(clusterOf("Lhh"), 2, 100, 51), d: forced, want: SpaceDefragment},
		{name: "no limit", view: filled(clusterOf("Lhh"), 2, 100, 100), want: SpaceDefragment},
		{name: "another is down", view: loose("Lhd"), d: half, want: SpaceWait, why: ErrUnhealthy},
		{name: "another is down, forced", view: loose("Lhd"), d: forced, want: SpaceWait, why: ErrUnhealthy},
		{name: "of five, another is down", view: loose("Lhhhd"), d: half, want: SpaceWait, why: ErrUnhealthy},
		{name: "no leader", view: loose("hhh"), d: half, want: SpaceWait, why: errNoLeader},
		{name: "two voters", view: loose("Lh"), d: half, want: SpaceRefuse, why: errFewVoters},
		{name: "two voters, forced", view: loose("Lh"), d: forced, want: SpaceDefragment},
		{name: "two voters, leader, forced", view: loose("hL"), d: forced, want: SpaceMoveLeader},
		{name: "two voters, too little free", view: filled(clusterOf("Lh"), 2, 100, 51), d: half},
		{name: "not listed", view: loose("L"), d: half, want: SpaceRefuse, why: errNotListed},
	} {
		got := NextDefragmentStep(c.view, 2, c.d, c.done)
		if got.Kind != c.want || !errors.Is(got.Cause, c.why) {
			t.Errorf("%s: %v, %v; want %v, %v", c.name, got.Kind, got.Cause, c.want, c.why)
		}
	}
	learning := loose("Lh")
	learning.Members[1].Learner = true
	if got := NextDefragmentStep(learning, 2, half, SpaceAttempts{}); got.Kind != SpaceDefragment {
		t.Errorf("learner: %v", got)
	}
}

func TestFreeShare(t *testing.T) {
	for _, c := range []struct {
		size, inUse int64
		want        int
	}{
		{0, 0, 0},
		{100, 100, 0},
		{100, 50, 50},
		{100, 51, 49},
		{100, 0, 100},
		{1, 0, 100},
		{100, 200, 0},
		{100, -1, 0},
		{-1, -2, 0},
	} {
		if got := (Member{DBSize: c.size, DBInUse: c.inUse}).FreeShare(); got != c.want {
			t.Errorf("%d of %d in use: %d %%, want %d %%", c.inUse, c.size, got, c.want)
		}
	}
}

func TestMayLead(t *testing.T) {
	learning := clusterOf("Lhh")
	learning.Members[1].Learner = true
	for _, c := range []struct {
		name string
		view View
		id   uint64
		want bool
	}{
		{"follower", clusterOf("Lhh"), 2, true},
		{"beside a dead one", clusterOf("Lhd"), 2, true},
		{"the leader", clusterOf("Lhh"), 1, true},
		{"dead", clusterOf("Ldh"), 2, false},
		{"learner", learning, 2, false},
		{"not listed", clusterOf("Lhh"), 9, false},
		{"no leader", clusterOf("hhh"), 2, false},
		{"corrupt", alarmed(clusterOf("Lhh"), Alarm{2, AlarmCorrupt}), 2, false},
	} {
		if got := MayLead(c.view, c.id); (got == nil) != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
