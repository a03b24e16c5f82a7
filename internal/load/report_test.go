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

// TestVerdict: every violated criterion is reported, each on one line.
func TestVerdict(t *testing.T) {
	for want, spoil := range map[string]func(*Report){
		"": func(*Report) {},
		"kept: 2 of 100 failed (1 excused, 0 refused)": func(r *Report) {
			r.Clients[0].All.Failed, r.Clients[0].All.Excused = 2, 1
		},
		"fresh: no success for 501 ms": func(r *Report) { r.Clients[1].All.Gap.Length = 501 * time.Millisecond },
		"fresh: 1 of 50 acknowledged":  func(r *Report) { r.Clients[1].Lost = []string{"a"} },
		"etcd: 2 of 50 acknowledged":   func(r *Report) { r.Etcd.Lost = []string{"a", "b"} },
		"etcd: 3 of 0 failed (2 excused, 0 refused)": func(r *Report) {
			r.Etcd.Writes.Failed, r.Etcd.Writes.Excused = 3, 2
		},
		"watch own 1: no event for 501 ms":  func(r *Report) { r.Watches[0].Gap.Length = 501 * time.Millisecond },
		"watch own 1: of 100 events 1":      func(r *Report) { r.Watches[0].Missed = []string{"a"} },
		"watch own 1: of 100 events 0":      func(r *Report) { r.Watches[0].Disordered = 1 },
		"watch own 1: openings: 1 of 0":     func(r *Report) { r.Watches[0].Openings.Failed = 1 },
		"watch own 1: 1 errors in its stre": func(r *Report) { r.Watches[0].Failed = 1 },
		"ETCD'S MEMBERS DIFFER":             func(r *Report) { r.Hashes.Members[1].Hash = 2 },
		"not every etcd member answered":    func(r *Report) { r.Hashes.Members[1].Err = errors.New("no route") },
		"not every etcd member answered ":   func(r *Report) { r.Hashes.Members = nil },
	} {
		r := good()
		spoil(&r)
		violated := Verdict(r, Unnoticed())
		if got := strings.Join(violated, "\n"); len(violated) > 1 || !strings.HasPrefix(got, want) ||
			(want == "") != (got == "") {
			t.Errorf("want %q, got %q", want, got)
		}
	}
}

// TestVerdictOfOutage: a limit applies to each client, also to the one that keeps its connection. A gap without a limit
// is not judged, and missed events always are.
func TestVerdictOfOutage(t *testing.T) {
	c := Criteria{Rate: 50, MostFailed: 10, Longest: Gaps{Reads: 2 * time.Second, Writes: 3 * time.Second}}
	r := good()
	for i := range r.Clients {
		r.Clients[i].All.Failed, r.Clients[i].All.Gap.Length = 10, time.Minute
		r.Clients[i].Reads.Gap.Length, r.Clients[i].Writes.Gap.Length = 2*time.Second, 3*time.Second
	}
	r.Watches[0].Gap.Length = time.Minute
	if violated := Verdict(r, c); len(violated) > 0 {
		t.Errorf("at the limits: %q", violated)
	}
	r.Watches[0].Openings, r.Watches[0].Failed, r.Watches[0].Repeated = Requests{Tried: 3, Failed: 2, Excused: 1}, 1, 1
	r.Watches[0].Missed = []string{"a"}
	r.Clients[0].All.Failed, r.Clients[0].Reads.Gap.Length, r.Clients[0].Writes.Gap.Length = 11, 2001*time.Millisecond,
		3001*time.Millisecond
	violated := Verdict(r, c)
	for i, want := range []string{
		"kept: 11 of 100 failed", "kept: no successful read for 2001 ms", "kept: no successful write for 3001 ms",
		"watch own 1: openings: 2 of 3 failed (1 excused", "watch own 1: 1 errors in its streams",
		"watch own 1: of 100 events 1 missed, 1 repeated",
	} {
		if len(violated) != 6 || !strings.HasPrefix(violated[i], want) {
			t.Errorf("want %q, got %q", want, violated)
		}
	}
}

func TestWords(t *testing.T) {
	words := strings.Join(Unnoticed().Words(true), "\n")
	for _, want := range []string{
		"50 requests per second", "no request of a client of the API fails",
		"without a successful request for more than 500ms",
		"excused are writes into etcd that fail with gRPC Unavailable, at most 60: a member", "and the members of etcd agree",
		"no watch is without an event for more than 500ms", "no watch misses an event", "no write into etcd fails",
	} {
		if !strings.Contains(words, want) {
			t.Errorf("the words lack %q:\n%s", want, words)
		}
	}
	outage := Criteria{MostFailed: 10, Longest: Gaps{Reads: time.Second}}
	if words := strings.Join(outage.Words(true), "\n"); !strings.Contains(words, "at most 10 requests") ||
		!strings.Contains(words, "without a successful read for more than 1s") ||
		strings.Contains(words, "without an event") || !strings.Contains(words, "no watch misses an event") {
		t.Errorf("%s", words)
	}
	if words := strings.Join(Unnoticed().Words(false), "\n"); strings.Contains(words, "etcd fail") ||
		strings.Contains(words, "agree") || !strings.Contains(words, "no acknowledged write is lost") {
		t.Errorf("without a direct writer:\n%s", words)
	}
}

// TestReportTable: failed, excused, repeated and refused are shown for each kind of operation.
func TestReportTable(t *testing.T) {
	r := good()
	r.Clients[0].All = Requests{Tried: 100, Failed: 4, Excused: 3, Repeated: 2, Refused: 1}
	r.Watches[0].Openings = Requests{Tried: 9, Failed: 8, Excused: 7, Repeated: 6, Refused: 5}
	r.Etcd.Writes = Requests{Tried: 50, Failed: 14, Excused: 13, Repeated: 12, Refused: 11}
	table := strings.Join(strings.Fields(r.String()), " ")
	for _, want := range []string{
		"requests: 4 of 200 failed (3 excused, 1 refused), 2 repeated",
		"OPERATION TRIED FAILED EXCUSED REPEATED REFUSED", "requests of client kept 100 4 3 2 1",
		"requests of client fresh 100 0 0 0 0", "openings of watches 9 8 7 6 5", "writes into etcd 50 14 13 12 11",
	} {
		if !strings.Contains(table, want) {
			t.Errorf("the table lacks %q:\n%s", want, r)
		}
	}
}
