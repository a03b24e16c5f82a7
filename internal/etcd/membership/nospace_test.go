package membership

import "testing"

// filled gives every member a quota of 100 and little data, and one member a database of
// size, of which inUse is in use.
func filled(v View, id uint64, size, inUse int64) View {
	for i := range v.Members {
		m := &v.Members[i]
		m.DBSize, m.DBInUse, m.DBQuota = 10, 10, 100
		if m.ID == id {
			m.DBSize, m.DBInUse = size, inUse
		}
	}
	return v
}

func TestNextSpaceStep(t *testing.T) {
	second := Alarm{2, AlarmNoSpace}
	full := func(letters string) View { return alarmed(filled(clusterOf(letters), 2, 100, 95), second) }
	loose := func(letters string) View { return alarmed(filled(clusterOf(letters), 2, 100, 30), second) }
	unlimited := full("Lhh")
	unlimited.Members[1].DBQuota = -1
	crowd := loose("Lhh")
	crowd.Members[0].DBSize, crowd.Members[2].DBSize = 100, 100
	tight := alarmed(filled(clusterOf("Lhh"), 3, 100, 95), second)

	compacted := func(id uint64) SpaceAttempts { return SpaceAttempts{Compacted: map[uint64]bool{id: true}} }
	defragmented := func(id uint64) SpaceAttempts {
		return SpaceAttempts{Compacted: map[uint64]bool{id: true}, Defragmented: map[uint64]bool{id: true}}
	}

	unknown := full("Lhh")
	unknown.Members[1].DBQuota = 0

	for _, c := range []struct {
		name string
		view View
		id   uint64
		done SpaceAttempts
		want SpaceStep
	}{
		{name: "no alarm", view: filled(clusterOf("Lhh"), 2, 100, 100), id: 2},
		{name: "another's alarm", view: full("Lhh"), id: 1},
		{name: "not listed", view: full("Lhh"), id: 9},
		{name: "history to drop", view: full("Lhh"), id: 2, want: SpaceStep{Kind: SpaceCompact, ID: 2}},
		{name: "free pages are enough", view: loose("Lhh"), id: 2, want: SpaceStep{Kind: SpaceDefragment, ID: 2}},
		{
			name: "after the compaction", view: full("Lhh"), id: 2, done: compacted(2),
			want: SpaceStep{Kind: SpaceDefragment, ID: 2},
		},
		{
			name: "after the compaction, pages are still pending", id: 2, done: compacted(2),
			view: alarmed(filled(clusterOf("Lhh"), 2, 95, 95), second), want: SpaceStep{Kind: SpaceDefragment, ID: 2},
		},
		{
			name: "after the compaction of another", view: full("Lhh"), id: 2, done: compacted(1),
			want: SpaceStep{Kind: SpaceCompact, ID: 2},
		},
		{
			name: "free pages seemed to be enough, and were not", id: 2,
			view: alarmed(filled(clusterOf("Lhh"), 2, 91, 91), second),
			done: SpaceAttempts{Defragmented: map[uint64]bool{2: true}}, want: SpaceStep{Kind: SpaceCompact, ID: 2},
		},
		{name: "still full", view: full("Lhh"), id: 2, done: defragmented(2), want: SpaceStep{Kind: SpaceRefuse}},
		{name: "room", view: alarmed(filled(clusterOf("Lhh"), 2, 50, 50), second), id: 2, want: SpaceStep{Kind: SpaceDisarm}},
		{
			name: "hardly room", view: alarmed(filled(clusterOf("Lhh"), 2, 91, 91), second), id: 2,
			want: SpaceStep{Kind: SpaceCompact, ID: 2},
		},
		{
			name: "exactly nine tenths", view: alarmed(filled(clusterOf("Lhh"), 2, 90, 90), second), id: 2,
			want: SpaceStep{Kind: SpaceDisarm},
		},
		{name: "the quota is unknown", view: unknown, id: 2, want: SpaceStep{Kind: SpaceCompact, ID: 2}},
		{name: "no quota", view: unlimited, id: 2, want: SpaceStep{Kind: SpaceDisarm}},
		{name: "leader", view: loose("hLh"), id: 2, want: SpaceStep{Kind: SpaceMoveLeader, ID: 2}},
		{
			name: "only member", view: alarmed(filled(clusterOf("L"), 1, 100, 30), Alarm{1, AlarmNoSpace}), id: 1,
			want: SpaceStep{Kind: SpaceDefragment, ID: 1},
		},
		{name: "beside a dead one", view: loose("Lhd"), id: 2, want: SpaceStep{Kind: SpaceWait, ID: 2}},
		{name: "not healthy", view: loose("Ldh"), id: 2, want: SpaceStep{Kind: SpaceWait}},
		{name: "nobody leads", view: loose("hhh"), id: 2, want: SpaceStep{Kind: SpaceWait}},
		{
			name: "another is CORRUPT", view: alarmed(loose("Lhh"), second, Alarm{3, AlarmCorrupt}), id: 2,
			want: SpaceStep{Kind: SpaceWait},
		},
		{name: "others as full: self first", view: crowd, id: 2, want: SpaceStep{Kind: SpaceDefragment, ID: 2}},
		{
			name: "then followers", view: alarmed(filledAll(clusterOf("Lhh"), 2), second), id: 2,
			want: SpaceStep{Kind: SpaceDefragment, ID: 3},
		},
		{
			name: "then the leader", view: alarmed(filledAll(clusterOf("Lhh"), 2), second), id: 2,
			done: SpaceAttempts{Defragmented: map[uint64]bool{3: true}}, want: SpaceStep{Kind: SpaceMoveLeader, ID: 1},
		},
		{name: "another with history to drop", view: tight, id: 2, want: SpaceStep{Kind: SpaceCompact, ID: 3}},
		{
			name: "another, after the compaction", view: tight, id: 2, done: compacted(3),
			want: SpaceStep{Kind: SpaceDefragment, ID: 3},
		},
		{
			name: "another that was not helped", view: tight, id: 2, done: defragmented(3), want: SpaceStep{Kind: SpaceDisarm},
		},
		{
			name: "orphan", view: alarmed(filled(clusterOf("Lhh"), 2, 10, 10), Alarm{9, AlarmNoSpace}), id: 1,
			want: SpaceStep{Kind: SpaceDisarm},
		},
		{
			name: "orphan, self full", view: alarmed(filled(clusterOf("Lhh"), 2, 100, 30), Alarm{0, AlarmNoSpace}), id: 2,
			want: SpaceStep{Kind: SpaceDefragment, ID: 2},
		},
		{
			name: "orphan, another full", view: alarmed(filled(clusterOf("Lhh"), 2, 100, 95), Alarm{9, AlarmNoSpace}), id: 1,
			want: SpaceStep{Kind: SpaceCompact, ID: 2},
		},
		{
			name: "orphan, another stays full", view: alarmed(filled(clusterOf("Lhh"), 2, 100, 95), Alarm{9, AlarmNoSpace}),
			id: 1, done: defragmented(2),
		},
	} {
		got := NextSpaceStep(c.view, c.id, c.done)
		if got.Kind != c.want.Kind || got.ID != c.want.ID {
			t.Errorf("%s: got %s of %d (%v), want %s of %d", c.name, got.Kind, got.ID, got.Cause, c.want.Kind, c.want.ID)
		}
		if (got.Kind == SpaceWait || got.Kind == SpaceRefuse) != (got.Cause != nil) {
			t.Errorf("%s: %s with the cause %v", c.name, got.Kind, got.Cause)
		}
		if (got.Kind == SpaceDisarm) != (len(got.Alarms) > 0) {
			t.Errorf("%s: %s of %v", c.name, got.Kind, got.Alarms)
		}
	}
}

// filledAll fills every member but one, with pages that a defragmentation frees.
func filledAll(v View, but uint64) View {
	v = filled(v, but, 10, 10)
	for i := range v.Members {
		if v.Members[i].ID != but {
			v.Members[i].DBSize = 100
		}
	}
	return v
}

func TestWithQuota(t *testing.T) {
	v := clusterOf("Lh")
	v.Members[1].DBQuota = 5
	got := v.WithQuota(4096)
	if got.Members[0].DBQuota != 4096 || got.Members[1].DBQuota != 5 || v.Members[0].DBQuota != 0 {
		t.Errorf("quota %d and %d", got.Members[0].DBQuota, got.Members[1].DBQuota)
	}
}
