package docs

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/jsonfile"
	"github.com/kubequorum/terraform-provider-kube/internal/load"
	"github.com/kubequorum/terraform-provider-kube/internal/soak"
)

// endpointOperations are the columns of the table of endpoints, and the results of the soak that they are of.
var endpointOperations = []struct{ column, row string }{
	{"1 to 3 machines", "from one machine to three"},
	{"3 to 5", "from three machines to five"},
	{"5 to 3", "from five machines to three"},
	{"a flag", "a flag of the API servers changes"},
	{"a replica is replaced", "a replica is replaced"},
}

// endpointTable returns the table of the kinds of endpoints: failed requests of each change, and what a dead
// machine costs.
func endpointTable(run jsonfile.Run[soak.Result]) (string, error) {
	rows, kinds := map[string]soak.Result{}, []string{}
	for _, r := range run.Results {
		rows[r.Name] = r
		if kind, operation, ok := strings.Cut(strings.TrimPrefix(r.Name, "endpoint "), ": "); ok && operation == "create" {
			kinds = append(kinds, kind)
		}
	}
	if len(kinds) == 0 {
		return "", fmt.Errorf("no figures of endpoints")
	}
	columns := []string{"kind"}
	for _, o := range endpointOperations {
		columns = append(columns, o.column)
	}
	columns = append(columns, "longest gap", "a machine is dead: fresh", "kept", "failed")
	var b strings.Builder
	b.WriteString(origin(run.Commit, run.Date))
	b.WriteString("| " + strings.Join(columns, " | ") + " |\n" + strings.Repeat("|---", len(columns)) + "|\n")
	for _, kind := range kinds {
		b.WriteString("| `" + kind + "` | " + strings.Join(endpointCells(rows, kind), " | ") + " |\n")
	}
	return b.String(), nil
}

// endpointCells returns the cells of a kind. Failed requests are counted whether they are excused or not.
func endpointCells(rows map[string]soak.Result, kind string) []string {
	var cells []string
	longest := time.Duration(0)
	for _, o := range endpointOperations {
		r := rows["endpoint "+kind+": "+o.row]
		if len(r.Observed) != 1 {
			cells = append(cells, notMeasured)
			continue
		}
		all := r.Observed[0].Requests()
		cells = append(cells, fmt.Sprintf("%d of %d", all.Failed, all.Tried))
		longest = max(longest, all.Gap.Length)
	}
	cells = append(cells, gapCell(longest, slices.Contains(cells, notMeasured)))
	dead := rows["endpoint "+kind+": a machine loses its power"]
	if len(dead.Observed) != 1 {
		return append(cells, notMeasured, notMeasured, notMeasured)
	}
	for _, name := range []string{"fresh", "kept"} {
		at := slices.IndexFunc(dead.Observed[0].Clients, func(c load.ClientSummary) bool { return c.Name == name })
		if at < 0 {
			cells = append(cells, notMeasured)
			continue
		}
		cells = append(cells, gapCell(dead.Observed[0].Clients[at].All.Gap.Length, false))
	}
	all := dead.Observed[0].Requests()
	return append(cells, fmt.Sprintf("%d of %d", all.Failed, all.Tried))
}

func gapCell(gap time.Duration, unknown bool) string {
	if unknown {
		return notMeasured
	}
	return fmt.Sprintf("%.2f s", gap.Seconds())
}

// endpointFigures are the results of make soak SOAK="--only ^endpoints".
const endpointFigures = "images/endpoints.json"

// TestEndpointTable checks that the table of the guide is made of the results. With -update it writes the table.
func TestEndpointTable(t *testing.T) {
	run, err := jsonfile.ReadRun[soak.Result](filepath.Join(root(t), endpointFigures))
	if err != nil {
		t.Fatal(err)
	}
	table, err := endpointTable(run)
	if err != nil {
		t.Fatal(err)
	}
	replaceTable(t, "templates/guides/soak.md", "endpoints", table)
}

// TestEndpointCells: what was not measured is not shown as nothing failed.
func TestEndpointCells(t *testing.T) {
	seen := []load.Summary{{Clients: []load.ClientSummary{
		{Name: "fresh", All: load.Requests{Tried: 100, Failed: 2, Gap: load.Gap{Length: 300 * time.Millisecond}}},
		{Name: "kept", All: load.Requests{Tried: 100, Failed: 1, Gap: load.Gap{Length: 400 * time.Millisecond}}},
	}}}
	run := jsonfile.Run[soak.Result]{Results: []soak.Result{{Name: "endpoint bgp: create"}}}
	table, err := endpointTable(run)
	if err != nil || strings.Count(table, notMeasured) < 9 {
		t.Errorf("%s, %v", table, err)
	}
	for _, o := range endpointOperations {
		run.Results = append(run.Results, soak.Result{Name: "endpoint bgp: " + o.row, Observed: seen})
	}
	run.Results = append(run.Results, soak.Result{Name: "endpoint bgp: a machine loses its power", Observed: seen})
	table, err = endpointTable(run)
	const want = "| `bgp` | 3 of 200 | 3 of 200 | 3 of 200 | 3 of 200 | 3 of 200 | 0.40 s | 0.30 s | 0.40 s | 3 of 200 |\n"
	if err != nil || !strings.HasSuffix(table, want) {
		t.Errorf("%s, %v", table, err)
	}
	if _, err := endpointTable(jsonfile.Run[soak.Result]{}); err == nil {
		t.Error("a run without endpoints has a table")
	}
}
