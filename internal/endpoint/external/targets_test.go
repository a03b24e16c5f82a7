package external

import (
	"errors"
	"strings"
	"testing"
)

// TestMayLeave: at most one replica is out of rotation, the last one stays, and one that is
// not ready may always leave.
func TestMayLeave(t *testing.T) {
	down := errors.New("connection refused")
	ready := target{replica: Replica{Name: "x"}}
	notReady := target{replica: Replica{Name: "x"}, notReady: down}
	lost := target{unreachable: down, notReady: down}
	lostButServing := target{unreachable: down}
	empty := target{notReady: errNoReplica}
	other := target{notReady: errNoReplica, other: "replica of another endpoint"}
	for _, c := range []struct {
		name   string
		leaver target
		others []target
		how    leaving
		why    string // "" if it may leave
		last   bool
	}{
		{"for a restart, all others ready", ready, []target{ready, ready}, toReturn, "", false},
		{"for a restart, another one out", ready, []target{ready, notReady}, toReturn, "another replica is not ready", false},
		{"for a restart, the only one", ready, []target{empty, other}, toReturn, "", false},
		{"for a restart, all others out", ready, []target{notReady}, toReturn, "last replica that is ready", true},
		{"for a restart, a machine lost", ready, []target{ready, lost}, toReturn, "another replica is not ready", false},
		{"for a restart, a machine lost that serves", ready, []target{lostButServing}, toReturn, "", false},
		{"for good, another one ready", ready, []target{ready, notReady}, forGood, "", false},
		{"for good, the only one", ready, nil, forGood, "last replica that is ready", true},
		{"for good, another one out", ready, []target{notReady}, forGood, "last replica that is ready", true},
		{"as the last, the only one", ready, []target{empty}, asLast, "", false},
		{"as the last, another one out", ready, []target{notReady}, asLast, "last replica that is ready", true},
		{"not ready itself", notReady, []target{notReady}, toReturn, "", false},
		{"has no replica", empty, []target{ready}, forGood, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen := map[string]target{"leaver": c.leaver}
			for i, o := range c.others {
				seen[string(rune('a'+i))] = o
			}
			why, last := mayLeave("leaver", seen, c.how)
			if (c.why == "") != (why == "") || !strings.Contains(why, c.why) || last != c.last {
				t.Errorf("mayLeave gives %q, %v, want %q, %v", why, last, c.why, c.last)
			}
		})
	}
	if why, _ := mayLeave("unknown", map[string]target{"a": ready}, forGood); why != "" {
		t.Errorf("a replica that is not a target may not leave: %s", why)
	}
}
