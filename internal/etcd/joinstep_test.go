package etcd

import "testing"

func TestNextStep(t *testing.T) {
	const url = "https://10.0.0.4:2380"
	fresh := self{Name: "cp4", PeerURL: url}
	running := self{Name: "cp4", PeerURL: url, Data: true, MemberID: 4, Pending: true, Running: true}
	with := func(edit func(*Member)) View {
		v := clusterOf("Lhhh")
		edit(&v.Members[3])
		return v
	}
	unnamedLearner := with(func(m *Member) { m.Name, m.ClientURLs, m.Learner, m.Healthy = "", nil, true, false })
	learner := with(func(m *Member) { m.Learner = true })
	silent := with(func(m *Member) { m.Healthy = false })
	dead := silent.withDead(4)
	neverStarted := with(func(m *Member) { m.ClientURLs, m.Healthy = nil, false })
	silentElsewhere := with(func(m *Member) { m.PeerURLs, m.Healthy = []string{"https://10.0.0.9:2380"}, false })
	moved := silentElsewhere.withDead(4)
	elsewhere := with(func(m *Member) { m.PeerURLs = []string{"https://10.0.0.9:2380"} })
	renamed := with(func(m *Member) { m.Name = "old" })
	corrupt := with(func(m *Member) { m.Alarms = []string{alarmCorrupt} })
	three := clusterOf("Lhh")

	edit := func(s self, f func(*self)) self { f(&s); return s }
	for _, c := range []struct {
		name string
		view View
		self self
		want step
	}{
		{"new", three, fresh, step{Kind: stepAdd}},
		{"removed, data left", three, edit(running, func(s *self) { s.Running = false }), step{Kind: stepArchive}},
		{"removed, still running", three, running, step{Kind: stepArchive}},
		{"stale unnamed learner", unnamedLearner, fresh, step{Kind: stepRemove, ID: 4}},
		{"silent member of a static bootstrap", neverStarted, fresh, step{Kind: stepVerify, ID: 4}},
		{"stale member of a static bootstrap", neverStarted.withDead(4), fresh, step{Kind: stepRemove, ID: 4}},
		{"rebuilt machine, silent at one look", silent, fresh, step{Kind: stepVerify, ID: 4}},
		{"silent namesake elsewhere", silentElsewhere, fresh, step{Kind: stepVerify, ID: 4}},
		{"rebuilt machine", dead, fresh, step{Kind: stepRemove, ID: 4}},
		{"rebuilt machine, answered moments ago", clusterOf("Lhhh"), fresh, step{Kind: stepRefuse, ID: 4}},
		{"dead predecessor elsewhere", moved, fresh, step{Kind: stepRemove, ID: 4}},
		{"live namesake elsewhere", elsewhere, fresh, step{Kind: stepRefuse, ID: 4}},
		{"live member of another name here", renamed, fresh, step{Kind: stepRefuse, ID: 4}},
		{"our data under another name", renamed, running, step{Kind: stepRefuse, ID: 4}},
		{"added anew, old data", learner, edit(running, func(s *self) { s.MemberID = 77 }), step{Kind: stepArchive}},
		{"cut off before start", learner, edit(running, func(s *self) { s.Running = false }), step{Kind: stepStart, ID: 4}},
		{"starting, no data yet", unnamedLearner, edit(running, func(s *self) { s.Data = false }), step{Kind: stepWait, ID: 4}},
		{"starting", unnamedLearner, running, step{Kind: stepWait, ID: 4}},
		{"serving learner", learner, running, step{Kind: stepPromote, ID: 4}},
		{"voter, not yet established", clusterOf("Lhhh"), running, step{Kind: stepEstablish, ID: 4}},
		{"voter that does not answer", dead, running, step{Kind: stepWait, ID: 4}},
		{"established", clusterOf("Lhhh"), edit(running, func(s *self) { s.Pending = false }), step{Kind: stepDone, ID: 4}},
		{"its data is CORRUPT", corrupt, edit(running, func(s *self) { s.Pending = false }), step{Kind: stepRemove, ID: 4}},
		{"a learner's data is CORRUPT", with(func(m *Member) { m.Alarms, m.Learner = []string{alarmCorrupt}, true }), running, step{Kind: stepRemove, ID: 4}},
		{"established and stopped", dead, edit(running, func(s *self) { s.Running, s.Pending = false, false }), step{Kind: stepStart, ID: 4}},
	} {
		got := nextStep(c.view, c.self)
		if got.Kind != c.want.Kind || got.ID != c.want.ID {
			t.Errorf("%s: got %s of %d, want %s of %d", c.name, got.Kind, got.ID, c.want.Kind, c.want.ID)
		}
		if got.Kind == stepRefuse && got.Reason == "" {
			t.Errorf("%s: refused without a reason", c.name)
		}
	}
}
