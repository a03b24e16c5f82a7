package membership

import "testing"

func TestNextJoinStep(t *testing.T) {
	const url = "https://10.0.0.4:2380"
	fresh := JoiningMember{Name: "cp4", PeerURL: url}
	running := JoiningMember{Name: "cp4", PeerURL: url, Data: true, MemberID: 4, Pending: true, Running: true}
	with := func(edit func(*Member)) View {
		v := clusterOf("Lhhh")
		edit(&v.Members[3])
		return v
	}
	unnamedLearner := with(func(m *Member) { m.Name, m.ClientURLs, m.Learner, m.Healthy = "", nil, true, false })
	learner := with(func(m *Member) { m.Learner = true })
	silent := with(func(m *Member) { m.Healthy = false })
	dead := silent.WithDead(4)
	neverStarted := with(func(m *Member) { m.ClientURLs, m.Healthy = nil, false })
	silentElsewhere := with(func(m *Member) { m.PeerURLs, m.Healthy = []string{"https://10.0.0.9:2380"}, false })
	moved := silentElsewhere.WithDead(4)
	elsewhere := with(func(m *Member) { m.PeerURLs = []string{"https://10.0.0.9:2380"} })
	renamed := with(func(m *Member) { m.Name = "old" })
	corrupt := with(func(m *Member) { m.Alarms = []string{AlarmCorrupt} })
	three := clusterOf("Lhh")

	deadElsewhere := with(func(m *Member) { m.Name, m.Healthy, m.Dead = "old", false, true })
	earlier := running
	earlier.Earlier = "its data is of an earlier cluster"

	edit := func(s JoiningMember, f func(*JoiningMember)) JoiningMember { f(&s); return s }
	onVolume := JoiningMember{Name: "cp4", PeerURL: url, Data: true, MemberID: 4, Volume: true}
	startedOnVolume := edit(onVolume, func(s *JoiningMember) { s.Running = true })
	there := func(f func(*Member)) View {
		return with(func(m *Member) { m.PeerURLs, m.Healthy = []string{"https://10.0.0.9:2380"}, false; f(m) })
	}
	learnerElsewhere := there(func(m *Member) { m.Learner = true })
	renamedElsewhere := there(func(m *Member) { m.Name = "old" })
	swapped := func(letters string) View {
		v := clusterOf(letters)
		v.Members[3].PeerURLs, v.Members[4].PeerURLs = []string{"https://10.0.0.9:2380"}, []string{url}
		return v
	}
	unnamedElsewhere := there(func(m *Member) { m.Name = "" })
	for _, c := range []struct {
		name string
		view View
		self JoiningMember
		want JoinStep
	}{
		{"new", three, fresh, JoinStep{Kind: JoinAdd}},
		{
			"removed, data left", three, edit(running, func(s *JoiningMember) { s.Running = false }),
			JoinStep{Kind: JoinArchive},
		},
		{"removed, still running", three, running, JoinStep{Kind: JoinArchive}},
		{"listed at another peer URL, running", elsewhere, running, JoinStep{Kind: JoinRefuse, ID: 4}},
		{"stale unnamed learner", unnamedLearner, fresh, JoinStep{Kind: JoinRemove, ID: 4}},
		{"silent member of a static bootstrap", neverStarted, fresh, JoinStep{Kind: JoinVerify, ID: 4}},
		{"stale member of a static bootstrap", neverStarted.WithDead(4), fresh, JoinStep{Kind: JoinRemove, ID: 4}},
		{"rebuilt machine, silent at one look", silent, fresh, JoinStep{Kind: JoinVerify, ID: 4}},
		{"silent namesake elsewhere", silentElsewhere, fresh, JoinStep{Kind: JoinVerify, ID: 4}},
		{"rebuilt machine", dead, fresh, JoinStep{Kind: JoinRemove, ID: 4}},
		{"rebuilt machine, answered moments ago", clusterOf("Lhhh"), fresh, JoinStep{Kind: JoinRefuse, ID: 4}},
		{"dead predecessor elsewhere", moved, fresh, JoinStep{Kind: JoinRemove, ID: 4}},
		{"live namesake elsewhere", elsewhere, fresh, JoinStep{Kind: JoinRefuse, ID: 4}},
		{"live member of another name here", renamed, fresh, JoinStep{Kind: JoinRefuse, ID: 4}},
		{"our data under another name", renamed, running, JoinStep{Kind: JoinRefuse, ID: 4}},
		{
			"added anew, old data", learner, edit(running, func(s *JoiningMember) { s.MemberID = 77 }),
			JoinStep{Kind: JoinArchive},
		},
		{
			"cut off before start", learner, edit(running, func(s *JoiningMember) { s.Running = false }),
			JoinStep{Kind: JoinStart, ID: 4},
		},
		{
			"starting, no data yet", unnamedLearner, edit(running, func(s *JoiningMember) { s.Data = false }),
			JoinStep{Kind: JoinWait, ID: 4},
		},
		{
			"its data was deleted while it serves", clusterOf("Lhhh"),
			edit(running, func(s *JoiningMember) { s.Data, s.Pending = false, false }),
			JoinStep{Kind: JoinRefuse, ID: 4},
		},
		{
			"its data was deleted, and it does not answer", silent,
			edit(running, func(s *JoiningMember) { s.Data, s.Pending = false, false }),
			JoinStep{Kind: JoinWait, ID: 4},
		},
		{
			"joining, its data was not there yet when the machine was observed", clusterOf("Lhhh"),
			edit(running, func(s *JoiningMember) { s.Data = false }),
			JoinStep{Kind: JoinWait, ID: 4},
		},
		{"starting", unnamedLearner, running, JoinStep{Kind: JoinWait, ID: 4}},
		{"serving learner", learner, running, JoinStep{Kind: JoinPromote, ID: 4}},
		{"voter, not yet established", clusterOf("Lhhh"), running, JoinStep{Kind: JoinEstablish, ID: 4}},
		{"voter that does not answer", dead, running, JoinStep{Kind: JoinWait, ID: 4}},
		{
			"established", clusterOf("Lhhh"), edit(running, func(s *JoiningMember) { s.Pending = false }),
			JoinStep{Kind: JoinDone, ID: 4},
		},
		{
			"its data is CORRUPT", corrupt, edit(running, func(s *JoiningMember) { s.Pending = false }),
			JoinStep{Kind: JoinRemove, ID: 4},
		},
		{
			"a learner's data is CORRUPT", with(func(m *Member) { m.Alarms, m.Learner = []string{AlarmCorrupt}, true }), running,
			JoinStep{Kind: JoinRemove, ID: 4},
		},
		{
			"data whose member is not recorded", learner, edit(running, func(s *JoiningMember) { s.MemberID = 0 }),
			JoinStep{Kind: JoinPromote, ID: 4},
		},
		{
			"a live member of another name here, starting", renamed, edit(running, func(s *JoiningMember) { s.Data = false }),
			JoinStep{Kind: JoinRefuse, ID: 4},
		},
		{"our data under the name of a dead member", deadElsewhere, running, JoinStep{Kind: JoinRefuse, ID: 4}},
		{"a dead member of another name here", deadElsewhere, fresh, JoinStep{Kind: JoinRemove, ID: 4}},
		{
			"data of an earlier cluster, stopped", clusterOf("Lhhh"),
			edit(earlier, func(s *JoiningMember) { s.Running = false }),
			JoinStep{Kind: JoinArchive},
		},
		{"data of an earlier cluster, running alone", silent, earlier, JoinStep{Kind: JoinArchive}},
		{"data of an earlier cluster, not listed", three, earlier, JoinStep{Kind: JoinArchive}},
		{"it serves, whatever its data looks like", clusterOf("Lhhh"), earlier, JoinStep{Kind: JoinEstablish, ID: 4}},
		{
			"it serves, and its record is of a former cluster", clusterOf("Lhhh"),
			edit(earlier, func(s *JoiningMember) { s.MemberID = 77 }),
			JoinStep{Kind: JoinEstablish, ID: 4},
		},
		{
			"established, and its record is of a former cluster", clusterOf("Lhhh"),
			edit(earlier, func(s *JoiningMember) { s.MemberID, s.Pending = 77, false }),
			JoinStep{Kind: JoinDone, ID: 4},
		},
		{
			"it does not answer, and its record is of a removed member", silent,
			edit(running, func(s *JoiningMember) { s.MemberID = 77 }),
			JoinStep{Kind: JoinArchive},
		},
		{
			"established and stopped", dead, edit(running, func(s *JoiningMember) { s.Running, s.Pending = false, false }),
			JoinStep{Kind: JoinStart, ID: 4},
		},
		{"its volume came from elsewhere", silentElsewhere, onVolume, JoinStep{Kind: JoinMove, ID: 4}},
		{"the only one, started before it could be told", elsewhere, startedOnVolume, JoinStep{Kind: JoinMove, ID: 4}},
		{"its volume is here, and it answers elsewhere", elsewhere, onVolume, JoinStep{Kind: JoinRefuse, ID: 4}},
		{"a learner's volume came", learnerElsewhere, onVolume, JoinStep{Kind: JoinRefuse, ID: 4}},
		{"the volume of a member of another name came", renamedElsewhere, onVolume, JoinStep{Kind: JoinRefuse, ID: 4}},
		{"the volume of an unnamed member came", unnamedElsewhere, onVolume, JoinStep{Kind: JoinMove, ID: 4}},
		{"the volume of a removed member came", three, onVolume, JoinStep{Kind: JoinArchive}},
		{
			"without a volume, data of a member that is elsewhere", silentElsewhere,
			edit(onVolume, func(s *JoiningMember) { s.Volume = false }),
			JoinStep{Kind: JoinVerify, ID: 4},
		},
		{"listed at another peer URL, silent at one look", silentElsewhere, running, JoinStep{Kind: JoinVerify, ID: 4}},
		{
			"listed at another peer URL, silent at one look, its data is gone", silentElsewhere,
			edit(running, func(s *JoiningMember) { s.Data = false }),
			JoinStep{Kind: JoinVerify, ID: 4},
		},
		{"listed at another peer URL, dead", moved, running, JoinStep{Kind: JoinRemove, ID: 4}},
		{"its address is another member's, silent at one look", swapped("Lhhsl"), running, JoinStep{Kind: JoinVerify, ID: 4}},
		{"its address is another member's, dead", swapped("Lhhdl"), running, JoinStep{Kind: JoinRemove, ID: 4}},
		{"its address is another member's, and it serves", swapped("Lhhhl"), running, JoinStep{Kind: JoinRefuse, ID: 4}},
		{"its volume came to another member's address", swapped("Lhhsl"), onVolume, JoinStep{Kind: JoinRefuse, ID: 4}},
		{
			"its volume came without data", moved, edit(onVolume, func(s *JoiningMember) { s.Data = false }),
			JoinStep{Kind: JoinRemove, ID: 4},
		},
		{"its volume is at its address", dead, onVolume, JoinStep{Kind: JoinStart, ID: 4}},
	} {
		got := NextJoinStep(c.view, c.self)
		if got.Kind != c.want.Kind || got.ID != c.want.ID {
			t.Errorf("%s: got %s of %d, want %s of %d", c.name, got.Kind, got.ID, c.want.Kind, c.want.ID)
		}
		if got.Kind == JoinRefuse && got.Reason == "" {
			t.Errorf("%s: refused without a reason", c.name)
		}
	}
}
