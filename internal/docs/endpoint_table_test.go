package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
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

// endpointHeader are the columns behind those of endpointOperations, up to what is not measured.
const endpointHeader = " longest gap of these | of a watch | limit | power loss: failed | longest without a read " +
	"| without a write | without an event | limit | dead machine listed for | destroy | plot | needs | cannot |"

// measuredCells is how many cells of a row are measured.
var measuredCells = len(endpointOperations) + 12

// plotOf returns the name of the file that tools/plots draws for a kind of endpoint.
func plotOf(kind string) string {
	return "endpoint-" + strings.NewReplacer(" with ", "-", " by ", "-", "_", "-").Replace(strings.ToLower(kind)) + ".svg"
}

const rawImages = "https://raw.githubusercontent.com/kubequorum/terraform-provider-kube/main/images/"

// byName returns the results of a run by their names.
func byName(run jsonfile.Run[soak.Result]) map[string]soak.Result {
	rows := map[string]soak.Result{}
	for _, r := range run.Results {
		rows[r.Name] = r
	}
	return rows
}

// endpointTable returns the table that compares the kinds of endpoint.
func endpointTable(run jsonfile.Run[soak.Result]) (string, error) {
	rows := byName(run)
	var b strings.Builder
	b.WriteString(origin(run.Commit, run.Date) + victimNote(rows) + "| kind | create |")
	for _, o := range endpointOperations {
		b.WriteString(" " + o.column + " |")
	}
	b.WriteString(endpointHeader + "\n" + strings.Repeat("|---", measuredCells+3) + "|\n")
	for _, c := range compared {
		cells, err := endpointCells(rows, c.kind)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", c.kind, strings.Join(cells, " | "), c.needs, c.cannot)
	}
	return b.String(), nil
}

// endpointCells returns the measured cells of a kind.
func endpointCells(rows map[string]soak.Result, kind string) ([]string, error) {
	prefix := "endpoint " + kind + ": "
	cells := slices.Repeat([]string{notMeasured}, measuredCells)
	cells[0], cells[measuredCells-2] = timeCell(rows[prefix+"create"]), timeCell(rows[prefix+"destroy"])
	changes, rest := cells[1:1+len(endpointOperations)], cells[1+len(endpointOperations):]
	all, longest, err := changesIn(rows, prefix)
	if err != nil {
		return nil, err
	}
	for i, seen := range all {
		if seen != nil {
			changes[i] = failedCell(seen.Requests())
		}
	}
	if !slices.Contains(all, nil) {
		copy(rest, []string{
			gapCell(longest.request), gapCell(longest.watch),
			limitCell(rows[prefix+endpointOperations[0].operation].Criteria, "request"),
		})
	}
	rest[8] = listedCell(rows[prefix+lostPower], kind)
	seen, err := observedIn(rows, prefix+lostPower)
	if err != nil || seen == nil {
		return cells, err
	}
	var reads, writes time.Duration
	for _, client := range seen.Clients {
		reads, writes = max(reads, client.Reads.Gap.Length), max(writes, client.Writes.Gap.Length)
	}
	copy(rest[3:], []string{
		failedCell(seen.Requests()), gapCell(reads), gapCell(writes), gapCell(seen.WatchGap.Length),
		limitCell(rows[prefix+lostPower].Criteria, "write"),
	})
	if len(rows[prefix+lostPower].Series) > 0 {
		cells[measuredCells-1] = fmt.Sprintf("[%s](%s)", plotOf(kind), rawImages+plotOf(kind))
	}
	return cells, nil
}

// victimNote says how the machine that was killed was chosen in files that do not record it.
func victimNote(rows map[string]soak.Result) string {
	for _, c := range compared {
		if r, ok := rows["endpoint "+c.kind+": "+lostPower]; ok && r.Chosen == "" {
			return "In this run, the machine that was killed was the one with the address, if one machine has it. For the " +
				"other kinds it was always the same one, whoever was connected to it.\n\n"
		}
	}
	return ""
}

var (
	longestWithout = regexp.MustCompile(`^no client of the API is without a successful (\w+) for more than (\S+)$`)
	mostFailed     = regexp.MustCompile(`^at most (\d+) requests of each client of the API fail$`)
)

// limitCell returns how long a client may be without a success of a kind, and how many of its requests may fail that
// are not excused: load.Criteria in words, as the file has them.
func limitCell(criteria []string, kind string) string {
	longest, failed := notMeasured, "none failed"
	for _, words := range criteria {
		if m := longestWithout.FindStringSubmatch(words); m != nil && m[1] == kind {
			if limit, err := time.ParseDuration(m[2]); err == nil {
				longest = gapCell(limit)
			}
		}
		if m := mostFailed.FindStringSubmatch(words); m != nil {
			failed = m[1] + " failed of each client"
		}
	}
	if longest == notMeasured {
		return longest
	}
	return longest + ", " + failed
}

// listedCell returns how long a dead machine was listed, with the limit.
func listedCell(r soak.Result, kind string) string {
	if soak.ListedFor(kind) == 0 {
		return "–"
	}
	for _, f := range r.Figures {
		if f.Name == soak.ListedFigure && len(f.Values) > 0 {
			return fmt.Sprintf("%.2f s (limit %.2f s)", float64(f.Worst())/1000, float64(f.Limit)/1000)
		}
	}
	return notMeasured
}

// gaps are the longest times without a successful request of a client, and without an event of a watch.
type gaps struct{ request, watch time.Duration }

// changesIn returns what clients observed during each of endpointOperations, nil for one that is not there, and their
// longest gaps.
func changesIn(rows map[string]soak.Result, prefix string) (all []*load.Summary, longest gaps, err error) {
	for _, o := range endpointOperations {
		seen, err := observedIn(rows, prefix+o.operation)
		if err != nil {
			return nil, gaps{}, err
		}
		all = append(all, seen)
		if seen == nil {
			continue
		}
		longest.watch = max(longest.watch, seen.WatchGap.Length)
		for _, client := range seen.Clients {
			longest.request = max(longest.request, client.All.Gap.Length)
		}
	}
	return all, longest, nil
}

// timeCell returns how long an apply took.
func timeCell(r soak.Result) string {
	switch {
	case r.Tried == 0 || len(r.Figures) != 1 || len(r.Figures[0].Values) == 0:
		return notMeasured
	case r.Passed < r.Tried:
		return "**failed**"
	}
	return fmt.Sprintf("%d %s", r.Figures[0].Worst(), r.Figures[0].Unit)
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

// failedCell returns how many requests failed, and how many of them are excused or were refused. Repeated ones are
// counted apart, as in load.Requests.String, which also has the counts that are zero.
func failedCell(r load.Requests) string {
	text := fmt.Sprintf("%d of %d", r.Failed, r.Tried)
	var parts []string
	if r.Excused > 0 {
		parts = append(parts, fmt.Sprintf("%d excused", r.Excused))
	}
	if r.Refused > 0 {
		parts = append(parts, fmt.Sprintf("%d refused", r.Refused))
	}
	if len(parts) > 0 {
		text += " (" + strings.Join(parts, ", ") + ")"
	}
	if r.Repeated > 0 {
		text += fmt.Sprintf(", %d repeated", r.Repeated)
	}
	return text
}

func gapCell(gap time.Duration) string { return fmt.Sprintf("%.2f s", gap.Seconds()) }

// TestEndpointTable checks the table of a run that was recorded as make soak records it.
func TestEndpointTable(t *testing.T) {
	run := endpointRun(t)
	got, err := endpointTable(run)
	if err != nil {
		t.Fatal(err)
	}
	expectRows(t, got,
		"records: 0123abc. Date: 2026-01-02.\n",
		"| kind | create | 1 → 3 | 3 → 5 | 5 → 3 | a flag | replaced | longest gap of these | of a watch | limit "+
			"| power loss: failed |",
		"| `bgp` | 41 s | 0 of 200 | 2 of 200 (2 excused) | 4 of 200 (2 excused) | 6 of 200 (2 excused) | "+
			"8 of 200 (2 excused) | "+
			"0.50 s | 0.60 s | 0.50 s, none failed | 60 of 200 (2 excused) | 1.20 s | 1.80 s | 1.90 s | "+
			"2.60 s, 130 failed of each client | "+
			"1.24 s (limit 2.00 s) | **failed** | [endpoint-bgp.svg]("+rawImages+
			"endpoint-bgp.svg) | routers that speak BGP | ",
		"| `kube_vip` | not measured | 0 of 200 | 2 of 200 (2 excused) "+strings.Repeat("| not measured ", 11)+
			"| – | not measured | not measured | one layer-2 network, ",
		"| `dns` "+strings.Repeat("| not measured ", 17)+"| a zone",
	)
	if strings.Contains(got, "whoever was connected") {
		t.Errorf("the file records why the machine was killed:\n%s", got)
	}
	older := slices.Clone(run.Results)
	for i := range older {
		older[i].Chosen, older[i].Figures = "", nil
	}
	before, err := endpointTable(jsonfile.Run[soak.Result]{Commit: run.Commit, Results: older})
	if err != nil || !strings.Contains(before, "whoever was connected to it.\n\n|") ||
		!strings.Contains(before, "130 failed of each client | not measured |") {
		t.Errorf("an older file: %v\n%s", err, before)
	}
	header, _, _ := strings.Cut(got[strings.Index(got, "| kind"):], "\n")
	for line := range strings.Lines(got[strings.Index(got, "| kind"):]) {
		if strings.Count(line, "|") != strings.Count(header, "|") {
			t.Errorf("another number of cells than in the header: %s", line)
		}
	}
	at := slices.IndexFunc(run.Results, func(r soak.Result) bool { return len(r.Observed) > 0 })
	run.Results[at].Observed = nil
	if _, err := endpointTable(run); err == nil || !strings.Contains(err.Error(), run.Results[at].Name) {
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
		watch := load.Gap{Length: max(reads, writes) + 100*time.Millisecond}
		seen := load.Summary{WatchGap: watch, Clients: []load.ClientSummary{
			{Name: "kept", All: of(failed, excused, writes), Reads: of(0, 0, reads/2), Writes: of(failed, excused, writes)},
			{Name: "fresh", All: of(failed, excused, reads), Reads: of(failed, excused, reads), Writes: of(0, 0, writes/2)},
		}}
		return []soak.Result{
			{
				Name: name, Tried: 200, Passed: 200 - 2*(failed-excused), Observed: []load.Summary{seen},
				Criteria: load.Unnoticed().Words(true),
			},
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
	lost := result("endpoint bgp: "+lostPower, 30, 1, 1200*time.Millisecond, 1800*time.Millisecond)
	lost[0].Series, lost[0].Chosen = []load.Series{{Name: "kept"}}, "the kept connection leads to it"
	outage := load.Unnoticed()
	outage.MostFailed, outage.Longest = 130, load.Gaps{Reads: 2600 * time.Millisecond, Writes: 2600 * time.Millisecond}
	lost[0].Criteria = outage.Words(true)
	lost[0].Figures = []jsonfile.Figure{jsonfile.Milliseconds(soak.ListedFigure, 2*time.Second, 1240*time.Millisecond)}
	seconds := func(n int) []jsonfile.Figure {
		return []jsonfile.Figure{{Name: "the apply", Unit: "s", Values: []int{n}}}
	}
	run.Results = append(run.Results, lost...)
	run.Results = append(run.Results,
		soak.Result{Name: "endpoint bgp: create", Tried: 1, Passed: 1, Figures: seconds(41)},
		soak.Result{Name: "endpoint bgp: destroy", Tried: 1, Figures: seconds(9)},
		soak.Result{Name: "endpoint kube_vip by BGP: create", Detail: "KUBE_VIP is not set"})
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

// TestPlotNames: the plots that the table names are those that tools/plots draws.
func TestPlotNames(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root(t), "tools", "plots", "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range compared {
		want := fmt.Sprintf("{%q, %q,", "endpoint "+c.kind+": "+lostPower, plotOf(c.kind))
		if !strings.Contains(string(text), want) {
			t.Errorf("tools/plots lacks %s", want)
		}
	}
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
