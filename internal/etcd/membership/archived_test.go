package membership

import (
	"strings"
	"testing"
)

func TestMayTakeUp(t *testing.T) {
	const url, elsewhere = "https://10.0.0.12:2380", "https://10.0.0.13:2380"
	view := func(change func(*Member)) View {
		m := Member{ID: 2, Name: "cp2", PeerURLs: []string{url}, ClientURLs: []string{"https://10.0.0.12:2379"}}
		change(&m)
		return View{ClusterID: 0xc, Members: []Member{{ID: 1, Name: "cp1", Healthy: true}, m}}
	}
	same := func(*Member) {}
	for name, c := range map[string]struct {
		member  func(*Member)
		archive func(*Archived)
		want    string
	}{
		"its own":               {same, func(*Archived) {}, ""},
		"its own, with a state": {same, func(a *Archived) { a.StateMember, a.StateMachine = 2, "m" }, ""},
		"another cluster":       {same, func(a *Archived) { a.Cluster = 0xd }, "etcd cluster d"},
		"removed":               {func(m *Member) { m.ID = 3 }, func(*Archived) {}, "was removed from the cluster"},
		"another in the state":  {same, func(a *Archived) { a.StateMember = 1 }, "the state has member 1"},
		"another member":        {same, func(a *Archived) { a.Name = "cp3" }, `data of member "cp2`},
		"another machine":       {same, func(a *Archived) { a.PeerURL = elsewhere }, "which is another machine"},
		"moved since":           {same, func(a *Archived) { a.StateMachine = "other" }, "last ran on machine other"},
		"serves":                {func(m *Member) { m.Healthy = true }, func(*Archived) {}, `"cp2" runs`},
		"runs":                  {same, func(a *Archived) { a.Running = true }, `"cp2" runs`},
		"learner":               {func(m *Member) { m.Learner = true }, func(*Archived) {}, "is a learner"},
		"corrupt":               {func(m *Member) { m.Alarms = []string{AlarmCorrupt} }, func(*Archived) {}, "CORRUPT"},
	} {
		a := Archived{Member: 2, Cluster: 0xc, Name: "cp2", PeerURL: url, Machine: "m"}
		c.archive(&a)
		reason, next := MayTakeUp(view(c.member), a)
		if !strings.Contains(reason, c.want) || (reason == "") != (c.want == "") || (next == "") != (reason == "") {
			t.Errorf("%s: %q, next %q, want %q", name, reason, next, c.want)
		}
	}
}
