package docs

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/jsonfile"
	"github.com/kubequorum/terraform-provider-kube/internal/load"
	"github.com/kubequorum/terraform-provider-kube/internal/soak"
)

// compared are the kinds of endpoint in the table that compares them, with what the soak calls them.
var compared = []struct{ kind, needs, cannot string }{
	{
		"haproxy", "one layer-2 network, VRRP between the balancers",
		"keep the connections of the machine that had the virtual IP",
	},
	{"external", "a balancer that checks `/readyz`", "see what the balancer sees"},
	{"external with hooks", "commands that change the balancer", "notice a dead machine, unless the balancer does"},
	{"dns", "a zone with dynamic updates, TSIG", "keep clients from an address that they have resolved before"},
	{"bgp", "routers that speak BGP", "keep connections when the set of routes changes"},
	{"kube_vip", "one layer-2 network, kube-vip", "spread requests, or hold the address without the API"},
	{"kube_vip by BGP", "routers that speak BGP, kube-vip", "filter routes, or detect a dead machine by BFD"},
}

// endpointOperations are the columns of the table, by the soak's operation.
var endpointOperations = []struct{ operation, column string }{
	{"from one machine to three", "1 → 3"},
	{"from three machines to five", "3 → 5"},
	{"from five machines to three", "5 → 3"},
	{"a flag of the API servers changes", "a flag"},
	{"a replica is replaced", "replaced"},
}

const lostPower = "a machine loses its power"

// endpointTable returns the table that compares the kinds of endpoint.
func endpointTable(run jsonfile.Run[soak.Result]) (string, error) {
	rows := map[string]soak.Result{}
	for _, r := range run.Results {
		rows[r.Name] = r
	}
	var b strings.Builder
	b.WriteString(origin(run.Commit, run.Date) + "| kind |")
	for _, o := range endpointOperations {
		b.WriteString(" " + o.column + " |")
	}
	b.WriteString(" longest gap of these | power loss: failed | longest without a read | longest without a write " +
		"| needs | cannot |\n" + strings.Repeat("|---", len(endpointOperations)+7) + "|\n")
	for _, c := range compared {
		cells, err := endpointCells(rows, "endpoint "+c.kind+": ")
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", c.kind, strings.Join(cells, " | "), c.needs, c.cannot)
	}
	return b.String(), nil
}

// endpointCells returns the measured cells of a kind, whose results have a prefix.
func endpointCells(rows map[string]soak.Result, prefix string) ([]string, error) {
	cells := slices.Repeat([]string{notMeasured}, len(endpointOperations)+4)
	var longest time.Duration
	measured := 0
	for i, o := range endpointOperations {
		seen, err := observedIn(rows, prefix+o.operation)
		if err != nil || seen == nil {
			if err != nil {
				return nil, err
			}
			continue
		}
		measured++
		cells[i] = failedCell(seen.Requests())
		for _, client := range seen.Clients {
			longest = max(longest, client.All.Gap.Length)
		}
	}
	if measured == len(endpointOperations) {
		cells[measured] = fmt.Sprintf("%.2f s", longest.Seconds())
	}
	seen, err := observedIn(rows, prefix+lostPower)
	if err != nil || seen == nil {
		return cells, err
	}
	var reads, writes time.Duration
	for _, client := range seen.Clients {
		reads, writes = max(reads, client.Reads.Gap.Length), max(writes, client.Writes.Gap.Length)
	}
	copy(cells[len(endpointOperations)+1:], []string{
		failedCell(seen.Requests()), fmt.Sprintf("%.2f s", reads.Seconds()), fmt.Sprintf("%.2f s", writes.Seconds()),
	})
	return cells, nil
}

// observedIn returns what clients observed in a result, or nil if it is not there.
func observedIn(rows map[string]soak.Result, name string) (*load.Summary, error) {
	r, ok := rows[name]
	switch {
	case !ok:
		return nil, nil
	case len(r.Observed) != 1 || len(r.Observed[0].Clients) == 0:
		return nil, fmt.Errorf("%q has the figures of %d runs of clients, want one", name, len(r.Observed))
	}
	return &r.Observed[0], nil
}

// failedCell returns how many requests failed, and how many of them for a known reason.
func failedCell(r load.Requests) string {
	text := fmt.Sprintf("%d of %d", r.Failed, r.Tried)
	if r.Excused > 0 {
		text += fmt.Sprintf(" (%d excused)", r.Excused)
	}
	return text
}

// TestEndpointTable checks the table of a run that was recorded as make soak records it.
func TestEndpointTable(t *testing.T) {
	run := endpointRun(t)
	got, err := endpointTable(run)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"records: 0123abc. Date: 2026-01-02.\n",
		"| kind | 1 → 3 | 3 → 5 | 5 → 3 | a flag | replaced | longest gap of these | power loss: failed |",
		"| `bgp` | 0 of 200 | 2 of 200 (2 excused) | 4 of 200 (2 excused) | 6 of 200 (2 excused) | 8 of 200 (2 excused) | " +
			"0.50 s | 60 of 200 (2 excused) | 1.20 s | 1.80 s | routers that speak BGP | ",
		"| `kube_vip` | 0 of 200 | 2 of 200 (2 excused) " + strings.Repeat("| not measured ", 7) + "| one layer-2 network, ",
		"| `dns` " + strings.Repeat("| not measured ", 9) + "| a zone",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the table lacks %q:\n%s", want, got)
		}
	}
	header, _, _ := strings.Cut(got[strings.Index(got, "| kind"):], "\n")
	for line := range strings.Lines(got[strings.Index(got, "| kind"):]) {
		if strings.Count(line, "|") != strings.Count(header, "|") {
			t.Errorf("another number of cells than in the header: %s", line)
		}
	}
	run.Results[0].Observed = nil
	if _, err := endpointTable(run); err == nil || !strings.Contains(err.Error(), run.Results[0].Name) {
		t.Errorf("a result without figures: %v", err)
	}
}

// endpointRun returns a run with all figures of one kind and a part of those of another one, as read from a file.
func endpointRun(t *testing.T) jsonfile.Run[soak.Result] {
	t.Helper()
	result := func(name string, failed, excused int, reads, writes time.Duration) []soak.Result {
		of := func(failed, excused int, gap time.Duration) load.Requests {
			return load.Requests{Tried: 100, Failed: failed, Excused: excused, Gap: load.Gap{Length: gap}}
		}
		seen := load.Summary{Clients: []load.ClientSummary{
			{Name: "kept", All: of(failed, excused, writes), Reads: of(0, 0, reads/2), Writes: of(failed, excused, writes)},
			{Name: "fresh", All: of(failed, excused, reads), Reads: of(failed, excused, reads), Writes: of(0, 0, writes/2)},
		}}
		return []soak.Result{
			{Name: name, Tried: 200, Passed: 200 - 2*(failed-excused), Observed: []load.Summary{seen}},
			{Name: name + ": no gap over 500ms", Tried: 2, Passed: 2, Detail: "longest 500 ms at 1.000 s"},
		}
	}
	run := jsonfile.Run[soak.Result]{Commit: "0123abc", Date: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	for i, o := range endpointOperations {
		gap := time.Duration(i+1) * 100 * time.Millisecond
		run.Results = append(run.Results, result("endpoint bgp: "+o.operation, i, min(i, 1), gap, gap/2)...)
		if i < 2 {
			run.Results = append(run.Results, result("endpoint kube_vip: "+o.operation, i, min(i, 1), gap, gap/2)...)
		}
	}
	run.Results = append(run.Results,
		result("endpoint bgp: "+lostPower, 30, 1, 1200*time.Millisecond, 1800*time.Millisecond)...)
	file := t.TempDir() + "/soak.json"
	if err := jsonfile.Write(file, run, 0o600); err != nil {
		t.Fatal(err)
	}
	read, err := jsonfile.ReadRun[soak.Result](file)
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// TestComparedKinds checks that the table has the kinds of endpoint that the soak measures.
func TestComparedKinds(t *testing.T) {
	var want, got []string
	for _, s := range soak.Scenarios() {
		if kind, ok := strings.CutPrefix(s.Name, "endpoints: "); ok {
			want = append(want, kind)
		}
	}
	for _, c := range compared {
		got = append(got, c.kind)
	}
	if !slices.Equal(got, want) {
		t.Errorf("the table has %q, the soak %q", got, want)
	}
}
