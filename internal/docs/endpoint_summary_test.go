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
	b.WriteString(origin(run.Commit, run.Date) + victimNote(rows) +
		"| endpoint | five changes: failed | longest gap | of a watch | limit | verdict " +
		"| a machine is killed with its cable pulled: failed | longest without a write | limit | verdict |\n" +
		strings.Repeat("|---", 10) + "|\n")
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
	changes, outage := slices.Repeat([]string{notMeasured}, 5), slices.Repeat([]string{notMeasured}, 4)
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
		sum = sum.Plus(seen.Requests())
		if rows[prefix+endpointOperations[i].operation].Verdict != soak.Met {
			verdict = soak.NotMet
		}
	}
	if !slices.Contains(all, nil) {
		limit := limitCell(rows[prefix+endpointOperations[0].operation].Criteria, "request")
		changes = []string{failedCell(sum), gapCell(longest.request), gapCell(longest.watch), limit, verdictCell(verdict)}
	}
	seen, err := observedIn(rows, prefix+lostPower)
	if err == nil && seen != nil {
		var writes time.Duration
		for _, client := range seen.Clients {
			writes = max(writes, client.Writes.Gap.Length)
		}
		outage = []string{
			failedCell(seen.Requests()), gapCell(writes),
			limitCell(rows[prefix+lostPower].Criteria, "write"), verdictCell(rows[prefix+lostPower].Verdict),
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
	expectRows(t, got,
		"records: 0123abc. Date: 2026-01-02.\n",
		"| `bgp` | 20 of 1000 (8 excused) | 0.50 s | 0.60 s | 0.50 s, none failed | **not met** | 60 of 200 (2 excused) | "+
			"1.80 s | 2.60 s, 130 failed of each client | ",
		"| `kube_vip` "+strings.Repeat("| not measured ", 9)+"|\n",
	)
	for i := range run.Results {
		run.Results[i].Verdict = soak.Met
	}
	got, err = endpointSummary(run)
	if err != nil || !strings.Contains(got, "| 0.60 s | 0.50 s, none failed | met | 60 of 200 (2 excused) | 1.80 s | ") ||
		strings.Contains(got, "not met") {
		t.Errorf("all criteria are met: %v\n%s", err, got)
	}
}
