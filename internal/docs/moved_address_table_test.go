package docs

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/jsonfile"
	"github.com/kubequorum/terraform-provider-kube/internal/load"
)

// movedAddress are the two moves of TestMoveAddress, by its subtests.
var movedAddress = []struct{ step, move string }{
	{"to the balancer", "from `haproxy` to the balancer"},
	{"from the balancer", "from the balancer to `haproxy`"},
}

// movedAddressTable returns the table of what clients notice when the same address moves.
func movedAddressTable(run jsonfile.Run[load.Observation]) string {
	var b strings.Builder
	b.WriteString(origin(run.Commit, run.Date) + "| move | requests that failed | longest gap | limit |\n" +
		"|---|---|---|---|\n")
	for _, m := range movedAddress {
		failed, longest, limit := notMeasured, notMeasured, notMeasured
		for _, o := range run.Results {
			if o.Name != "TestMoveAddress/"+strings.ReplaceAll(m.step, " ", "_") {
				continue
			}
			sum := o.Observed.Requests()
			failed, longest, limit = failedCell(sum), gapCell(sum.Gap.Length), limitCell(o.Criteria, "request")
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", m.move, failed, longest, limit)
	}
	return b.String()
}

// TestMovedAddressFigures checks that the table is made of the results in images/moved-address.json. With -update it
// writes the table.
func TestMovedAddressFigures(t *testing.T) {
	replaceTable(t, "templates/guides/topologies.md", "moved address",
		movedAddressTable(recordedRun[load.Observation](t, "moved-address.json")))
}

// TestMovedAddressTable checks the table, with a part of a run.
func TestMovedAddressTable(t *testing.T) {
	criteria := load.Unnoticed()
	criteria.Longest.Any = 5 * time.Second
	got := movedAddressTable(jsonfile.Run[load.Observation]{Commit: "0123abc", Results: []load.Observation{
		{Name: "TestMoveAddress/to_the_balancer", Criteria: criteria.Words(true), Observed: load.Summary{
			Clients: []load.ClientSummary{
				{All: load.Requests{Tried: 100, Failed: 3, Excused: 3, Repeated: 2, Gap: load.Gap{Length: time.Second}}},
				{All: load.Requests{Tried: 50, Repeated: 1, Gap: load.Gap{Length: 1210 * time.Millisecond}}},
			},
		}},
	}})
	expectRows(t, got,
		"records: 0123abc. Date: not measured.\n",
		"| from `haproxy` to the balancer | 3 of 150 (3 excused), 3 repeated | 1.21 s | 5.00 s, none failed |\n",
		"| from the balancer to `haproxy` | not measured | not measured | not measured |\n",
	)
	text := sourceOf(t, "internal/acceptance/endpoint_move_test.go")
	for _, m := range movedAddress {
		if want := fmt.Sprintf("t.Run(%q, func(t *testing.T) { undisturbed(", m.step); !strings.Contains(text, want) {
			t.Errorf("the test lacks %s", want)
		}
	}
}
