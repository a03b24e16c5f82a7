package targets

import (
	"errors"
	"strings"
	"testing"
)

// TestMayLeave: at most one replica is out of rotation, the last one stays, and one that is
// not ready may always leave.
func TestMayLeave(t *testing.T) {
	down := errors.New("connection refused")
	ready := Target{Replica: Replica{Name: "x"}}
	notReady := Target{Replica: Replica{Name: "x"}, NotReady: down}
	lost := Target{Unreachable: down, NotReady: down}
	lostButServing := Target{Unreachable: down}
	empty := Target{NotReady: errNoReplica}
	foreign := Target{Foreign: true}
	foreignOut := Target{Foreign: true, NotReady: down}
	other := Target{NotReady: errNoReplica, Other: "replica of another endpoint"}
	for _, c := range []struct {
		name   string
		leaver Target
		others []Target
		how    Leaving
		why    string // "" if it may leave
		last   bool
	}{
		{"for a restart, all others ready", ready, []Target{ready, ready}, ToReturn, "", false},
		{"for a restart, another one out", ready, []Target{ready, notReady}, ToReturn, "another replica is not ready", false},
		{"for a restart, the only one", ready, []Target{empty, other}, ToReturn, "", false},
		{"for a restart, all others out", ready, []Target{notReady}, ToReturn, "last replica that is ready", true},
		{"for a restart, a machine lost", ready, []Target{ready, lost}, ToReturn, "another replica is not ready", false},
		{"for a restart, a machine lost that serves", ready, []Target{lostButServing}, ToReturn, "", false},
		{"for a restart, one of somebody else serves", ready, []Target{foreign}, ToReturn, "", false},
		{"for a restart, one of somebody else is out", ready, []Target{ready, foreignOut}, ToReturn, "not imported", false},
		{"as the last, one of somebody else is out", ready, []Target{foreignOut}, AsLast, "", false},
		{"for good, only one of somebody else serves", ready, []Target{foreign}, ForGood, "last replica that is ready", true},
		{"for good, another one ready", ready, []Target{ready, notReady}, ForGood, "", false},
		{"for good, the only one", ready, nil, ForGood, "last replica that is ready", true},
		{"for good, another one out", ready, []Target{notReady}, ForGood, "last replica that is ready", true},
		{"as the last, the only one", ready, []Target{empty}, AsLast, "", false},
		{"as the last, another one out", ready, []Target{notReady}, AsLast, "last replica that is ready", true},
		{"not ready itself", notReady, []Target{notReady}, ToReturn, "", false},
		{"has no replica", empty, []Target{ready}, ForGood, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen := Observed{"leaver": c.leaver}
			for i, o := range c.others {
				seen[string(rune('a'+i))] = o
			}
			why, last := mayLeave("leaver", seen, c.how)
			if (c.why == "") != (why == "") || !strings.Contains(why, c.why) || last != c.last {
				t.Errorf("mayLeave gives %q, %v, want %q, %v", why, last, c.why, c.last)
			}
		})
	}
	if why, _ := mayLeave("unknown", Observed{"a": ready}, ForGood); why != "" {
		t.Errorf("a replica that is not a target may not leave: %s", why)
	}
}
