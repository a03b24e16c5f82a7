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

// endpointSummary returns the table of the README: for each kind of endpoint, the sum of its changes, and the loss of a
// machine.
func endpointSummary(run jsonfile.Run[soak.Result]) (string, error) {
	rows := byName(run)
	var b strings.Builder
	b.WriteString(origin(run.Commit, run.Date) + "| endpoint | five changes: failed | longest gap | verdict " +
		"| a machine is killed: failed | longest without a write | verdict |\n" + strings.Repeat("|---", 7) + "|\n")
	for _, c := range compared {
		cells, err := summaryCells(rows, c.kind)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", c.kind, strings.Join(cells, " | "))
	}
	return b.String(), nil
}

// summaryCells returns the cells of a kind behind its name.
func summaryCells(rows map[string]soak.Result, kind string) ([]string, error) {
	prefix := "endpoint " + kind + ": "
	changes, outage := []string{notMeasured, notMeasured, notMeasured}, []string{notMeasured, notMeasured, notMeasured}
	all, longest, err := changesIn(rows, prefix)
	if err != nil {
		return nil, err
	}
	var sum load.Requests
	verdict := soak.Met
	for i, seen := range all {
		if seen == nil {
			continue
		}
		r := seen.Requests()
		sum.Tried, sum.Failed, sum.Excused = sum.Tried+r.Tried, sum.Failed+r.Failed, sum.Excused+r.Excused
		if rows[prefix+endpointOperations[i].operation].Verdict != soak.Met {
			verdict = soak.NotMet
		}
	}
	if !slices.Contains(all, nil) {
		changes = []string{failedCell(sum), fmt.Sprintf("%.2f s", longest.Seconds()), verdictCell(verdict)}
	}
	seen, err := observedIn(rows, prefix+lostPower)
	if err == nil && seen != nil {
		var writes time.Duration
		for _, client := range seen.Clients {
			writes = max(writes, client.Writes.Gap.Length)
		}
		outage = []string{
			failedCell(seen.Requests()), fmt.Sprintf("%.2f s", writes.Seconds()), verdictCell(rows[prefix+lostPower].Verdict),
		}
	}
	return append(changes, outage...), err
}

// TestEndpointSummary checks the table of a run that was recorded as make soak records it.
func TestEndpointSummary(t *testing.T) {
	run := endpointRun(t)
	got, err := endpointSummary(run)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"records: 0123abc. Date: 2026-01-02.\n",
		"| `bgp` | 20 of 1000 (8 excused) | 0.50 s | **not met** | 60 of 200 (2 excused) | 1.80 s | ",
		"| `kube_vip` | not measured | not measured | not measured | not measured | not measured | not measured |\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the table lacks %q:\n%s", want, got)
		}
	}
	for i := range run.Results {
		run.Results[i].Verdict = soak.Met
	}
	got, err = endpointSummary(run)
	if err != nil || !strings.Contains(got, "| 0.50 s | met | 60 of 200 (2 excused) | 1.80 s | met |\n") {
		t.Errorf("all criteria are met: %v\n%s", err, got)
	}
}
