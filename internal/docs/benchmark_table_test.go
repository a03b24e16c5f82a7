package docs

import (
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/bench"
	"github.com/kubequorum/terraform-provider-kube/internal/jsonfile"
)

// TestBenchmarkRounds: each figure says of how many rounds it is, and a run that was cut off meets no goal.
func TestBenchmarkRounds(t *testing.T) {
	of := func(rounds int, least, most float64, unit string) bench.Result {
		return bench.Result{
			Value: most, Min: least, Max: most, Unit: unit, Rounds: rounds, Goal: "≤ 1.5 ×", Met: true,
		}
	}
	for _, c := range []struct {
		result bench.Result
		want   string
	}{
		{of(5, 1, 3, "s"), "| 5: 1.00–3.00 | – | – | – | ≤ 1.5 × | yes |"},
		{of(1, 2, 2, "s"), "| 1 | – | – | – | ≤ 1.5 × | too few rounds |"},
		{of(2, 2, 2, "s"), "| too few rounds |"},
		{of(1, 1, 1, ""), "| ≤ 1.5 × | yes |"},
	} {
		run := jsonfile.Run[bench.Result]{Results: []bench.Result{c.result}}
		if got := benchmarkTable(run); !strings.Contains(got, c.want) {
			t.Errorf("%+v: %s, want %s", c.result, got, c.want)
		}
	}
}
