package soak

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/load"
)

// clientsReport returns the report of clients that observed nothing.
func clientsReport() load.Report {
	of := func(name string) load.Client {
		return load.Client{Name: name, All: load.Requests{Tried: 100}, Acknowledged: 50}
	}
	return load.Report{
		Clients: []load.Client{of("kept"), of("fresh")},
		Watches: []load.Watch{{Name: "own 1", Events: 100}},
		Hashes:  &load.Hashes{Members: []load.MemberHash{{Name: "cp1", Hash: 1}}},
	}
}

func TestConclude(t *testing.T) {
	for _, c := range []struct {
		result  Result
		verdict Verdict
	}{
		{Result{Tried: 2, Passed: 2}, Met},
		{Result{Tried: 2, Passed: 1}, NotMet},
		{Result{}, NotMeasured},
		{skippedResult("x", errNoKubeVIP), NotMeasured},
		{Result{Tried: 2, Passed: 2, Violated: []string{"too slow"}}, NotMet},
		{incompleteResult("x", errFailed), NotMet},
	} {
		r := c.result
		r.conclude("some")
		if r.Verdict != c.verdict || r.Scenario != "some" || len(r.Criteria) != 1 ||
			(r.Verdict == NotMet) != (len(r.Violated) > 0) ||
			(failed([]Result{r}) == 1) != (r.Verdict != Met && r.Skipped == "") {
			t.Errorf("%+v, want %s", r, c.verdict)
		}
	}
}

// TestUncompleted: no result of a change that did not complete is met.
func TestUncompleted(t *testing.T) {
	report := clientsReport()
	for _, err := range []error{nil, errFailed} {
		for _, r := range uncompleted(loadResults("x", report, load.Unnoticed()), err) {
			if r.conclude("some"); (r.Verdict == Met) != (err == nil) {
				t.Errorf("%v: %+v", err, r)
			}
		}
	}
}

// TestLoadResults: the first result has the criteria, the verdict of all of them, and the figures.
func TestLoadResults(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*load.Report)
		passed int
		want   Verdict
	}{
		{"all well", func(*load.Report) {}, 200, Met},
		{"a failed request", func(r *load.Report) { r.Clients[0].All.Failed = 1 }, 199, NotMet},
		{"a gap", func(r *load.Report) { r.Clients[0].All.Gap.Length = time.Second }, 200, NotMet},
		{"a watch that fails", func(r *load.Report) { r.Watches[0].Failed = 1 }, 200, NotMet},
		{"an excused opening", func(r *load.Report) {
			r.Watches[0].Openings = load.Requests{Tried: 2, Failed: 1, Excused: 1, Refused: 1}
		}, 200, Met},
		{"a lost write", func(r *load.Report) { r.Clients[0].Lost = []string{"x"} }, 200, NotMet},
	} {
		report := clientsReport()
		c.change(&report)
		r := loadResults("change", report, load.Unnoticed())[0]
		r.conclude("under load")
		if r.Passed != c.passed || r.Verdict != c.want || len(r.Observed) != 1 || !slices.Equal(r.Criteria,
			load.Unnoticed().Words(true)) {
			t.Errorf("%s: %+v", c.name, r)
		}
	}
}

// TestOutageResults: the client that keeps its connection counts as the other one does.
func TestOutageResults(t *testing.T) {
	c := outage()
	first, second := clientsReport(), clientsReport()
	for _, r := range []*load.Report{&first, &second} {
		for i := range r.Clients {
			r.Clients[i].Reads.Gap.Length, r.Clients[i].Writes.Gap.Length = time.Second, 2*time.Second
			r.Clients[i].All.Failed = c.MostFailed
		}
	}
	results := outageResults([]load.Report{first, second}, c)
	for i, tried := range []int{4, 4, 4, 2} {
		if r := results[i]; r.Tried != tried || r.Passed != tried || len(r.Violated) > 0 {
			t.Errorf("within the limits: %+v", r)
		}
	}
	second.Clients[0].Reads.Gap.Length, second.Clients[0].Writes.Gap.Length = time.Minute, time.Minute
	second.Clients[0].All.Failed++
	results = outageResults([]load.Report{first, second}, c)
	for _, r := range results[:3] {
		if r.Tried != 4 || r.Passed != 3 {
			t.Errorf("the kept client is over the limit: %+v", r)
		}
	}
	violated := results[0].Violated
	if len(violated) != 3 || !strings.HasPrefix(violated[0], "time 2: kept: 101 of 100 failed") ||
		len(results[0].Observed) != 2 {
		t.Errorf("%q", violated)
	}
	for i, want := range []string{
		"fresh: longest 1s, mean 1s; kept: longest 1m0s", "kept: longest 1m0s", "kept: [100 101]",
	} {
		if !strings.Contains(results[i].Detail, want) {
			t.Errorf("the detail lacks %q: %s", want, results[i].Detail)
		}
	}
}
