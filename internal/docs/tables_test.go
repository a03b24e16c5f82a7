package docs

import (
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/etcdtest"
	"github.com/kubequorum/terraform-provider-kube/internal/jsonfile"
	"github.com/kubequorum/terraform-provider-kube/internal/load"
	"github.com/kubequorum/terraform-provider-kube/internal/soak"
)

// measuredRun returns a run with all figures, and one of an older soak.
func measuredRun() (measured, older jsonfile.Run[soak.Result]) {
	of := func(failed int) load.Requests {
		gap := load.Gap{Length: time.Second}
		return load.Requests{Tried: 100, Failed: failed, Excused: 1, Repeated: 4, Refused: 2, Gap: gap}
	}
	writes := of(5)
	seen := load.Summary{
		Clients: []load.ClientSummary{
			{Name: "kept", All: of(3), Reads: of(0), Writes: of(3)}, {Name: "fresh", All: of(0), Reads: of(0), Writes: of(0)},
		},
		EtcdWrites: &writes, WatchOpenings: of(6), Pressure: &load.Pressure{Run: 0.41, Gap: 0.97},
	}
	measured.Commit, measured.Date = "0123abc-dirty", time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, s := range soaked {
		rows := []soak.Result{
			{Name: s.row, Tried: 200, Passed: 197},
			{Name: s.row + ": no gap over 500ms", Tried: 6, Passed: 5, Detail: "longest 1000 ms at 1.000 s"},
			{Name: s.row + ": writes and events kept", Detail: "30 writes acknowledged, 0 lost; members agree: true"},
		}
		older.Results = append(older.Results, rows...)
		rows[0].Criteria, rows[0].Verdict, rows[0].Observed = []string{"no request fails"}, soak.NotMet, []load.Summary{seen}
		measured.Results = append(measured.Results, rows...)
	}
	address, writing := soak.Result{Name: "dead machine: it answers"}, soak.Result{Name: "dead machine: it writes"}
	address.Detail, writing.Detail = "longest 1.46s, mean 1.3s", "longest 1.51s, mean 1.3s"
	older.Results = append(older.Results, address, writing)
	address.Criteria, address.Verdict, address.Observed = []string{"it answers"}, soak.Met, []load.Summary{seen, seen}
	measured.Results = append(measured.Results, address, writing)
	return measured, older
}

// expectRows expects that a table has these rows, or parts of rows.
func expectRows(t *testing.T, got string, rows ...string) {
	t.Helper()
	for _, want := range rows {
		if !strings.Contains(got, want) {
			t.Errorf("the table lacks %q:\n%s", want, got)
		}
	}
}

func TestTables(t *testing.T) {
	measured, older := measuredRun()
	unknown := strings.Repeat("| not measured ", 5)
	for _, c := range []struct {
		name string
		make func(jsonfile.Run[soak.Result]) (string, error)
		run  jsonfile.Run[soak.Result]
		want []string
	}{
		{"changes", changeTable, measured, []string{
			"records: 0123abc-dirty. Date: 2026-01-02.\n", "Criteria:\n\n- no request fails\n\n",
			"| nothing changes | 200 | 3 | 2 | 8 | 4 | 5 of 100 failed (1 excused, 2 refused), 4 repeated | 6 of 100 failed " +
				"(1 excused, 2 refused), 4 repeated | 1.00 s | 41%, 97% | 5 of 6 | 0 of 30 | **not met** |\n",
		}},
		{"changes of an older run", changeTable, older, []string{
			"records: not measured. Date: not measured.\n", "Criteria that the file records: not measured.\n",
			"| nothing changes | 200 | 3 " + unknown + "| 1.00 s | not measured | 5 of 6 | 0 of 30 | not measured |\n",
		}},
		{"dead machine", outageTable, measured, []string{
			"0123abc-dirty", "- it answers\n", "Verdict: met.\n", "| fresh | 200 | 0 | 2 | 8 | 4 | 1.00 s | 1.00 s |\n",
			"| kept | 200 | 6 | 2 | 8 | 4 | 1.00 s | 1.00 s |\n",
		}},
		{"dead machine of an older run", outageTable, older, []string{
			"Verdict: not measured.\n", "| fresh " + unknown + "| 1.46s | 1.51s |\n", "| kept " + unknown + "| not measured ",
		}},
	} {
		got, err := c.make(c.run)
		for _, want := range c.want {
			if err != nil || !strings.Contains(got, want) {
				t.Errorf("%s: %v: the table lacks %q:\n%s", c.name, err, want, got)
			}
		}
	}
	partial := measured
	partial.Results = measured.Results[:3]
	if got, err := changeTable(partial); err != nil || !strings.Contains(got, "| "+soaked[1].change+" "+unknown) {
		t.Errorf("a run that was stopped: %v\n%s", err, got)
	}
	measured.Results[3].Criteria = []string{"others"}
	if _, err := changeTable(measured); err == nil {
		t.Error("rows with other criteria are in one table")
	}
}

// TestRestoreCells: a table has every cell, also those without a run.
func TestRestoreCells(t *testing.T) {
	cells := etcdtest.RestoreCells()
	if len(cells) != 28 {
		t.Errorf("%d cells", len(cells))
	}
	got := restoreTable(jsonfile.Run[etcdtest.MeasuredRestore]{
		Commit: "0123abc", Results: []etcdtest.MeasuredRestore{
			{RestoreCell: cells[0], Seconds: 12.34, LostRevisions: 3, Informer: 0.5}, {RestoreCell: cells[1], Refused: true},
		},
	})
	expectRows(t, got,
		"records: 0123abc. Date: not measured.",
		"| 3.5 | none survives | a snapshot | 12.3 s | 3 | 0.5 s |\n",
		"| 3.5 | none survives | a snapshot, truncated | refused before anything changes | – | – |\n",
		"| 3.6 | one survives | the survivor that has most | not measured | not measured | not measured |\n",
	)
}
