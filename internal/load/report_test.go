package load

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// good returns the report of a run without problems.
func good() Report {
	of := func(name string) Client {
		return Client{Name: name, All: Requests{Tried: 100, Gap: Gap{Length: 40 * time.Millisecond}}, Acknowledged: 50}
	}
	direct := of("etcd")
	return Report{
		Clients: []Client{of("kept"), of("fresh")},
		Watches: []Watch{{Name: "own 1", Events: 100}},
		Etcd:    &direct,
		Hashes:  &Hashes{Revision: 7, Members: []MemberHash{{Name: "cp1", Hash: 1}, {Name: "cp2", Hash: 1}}},
	}
}

// TestViolations: every problem is reported, each on one line.
func TestViolations(t *testing.T) {
	for want, spoil := range map[string]func(*Report){
		"":                                 func(*Report) {},
		"kept: 1 of 100 requests failed":   func(r *Report) { r.Clients[0].All.Failed = 1 },
		"fresh: no success for 501 ms":     func(r *Report) { r.Clients[1].All.Gap.Length = 501 * time.Millisecond },
		"fresh: 1 of 50 acknowledged":      func(r *Report) { r.Clients[1].Lost = []string{"a"} },
		"etcd: 2 of 50 acknowledged":       func(r *Report) { r.Etcd.Lost = []string{"a", "b"} },
		"watch own 1: no event for 501 ms": func(r *Report) { r.Watches[0].Gap.Length = 501 * time.Millisecond },
		"watch own 1: of 100 events 1":     func(r *Report) { r.Watches[0].Missed = []string{"a"} },
		"watch own 1: of 100 events 0":     func(r *Report) { r.Watches[0].Disordered = 1 },
		"ETCD'S MEMBERS DIFFER":            func(r *Report) { r.Hashes.Members[1].Hash = 2 },
		"not every etcd member answered":   func(r *Report) { r.Hashes.Members[1].Err = errors.New("no route") },
		"not every etcd member answered ":  func(r *Report) { r.Hashes.Members = nil },
	} {
		r := good()
		spoil(&r)
		broken := r.Violations(500 * time.Millisecond)
		if got := strings.Join(broken, "\n"); len(broken) > 1 || !strings.HasPrefix(got, want) ||
			(want == "") != (got == "") {
			t.Errorf("want %q, got %q", want, got)
		}
		if !strings.Contains(r.String(), "of 200 requests failed") {
			t.Errorf("the table lacks its first line:\n%s", r)
		}
	}
}

// TestDirectWriterMayFail: puts may fail while a member restarts.
func TestDirectWriterMayFail(t *testing.T) {
	r := good()
	r.Etcd.All.Failed, r.Etcd.All.Gap.Length = 9, time.Minute
	if broken := r.Violations(time.Second); len(broken) > 0 || r.Failed() > 0 || r.LongestGap().Length > time.Second {
		t.Errorf("%v", broken)
	}
}
