package docs

import (
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/bench"
	"github.com/kubequorum/terraform-provider-kube/internal/jsonfile"
)

// TestBenchmarkRounds: each figure says of how many rounds it is, and a run that was cut off meets no goal.
func TestBenchmarkRounds(t *testing.T) {
	for _, c := range []struct {
		result bench.Result
		want   string
	}{
		{bench.Result{Value: 2, Min: 1, Max: 3, Unit: "s", Rounds: 5, Goal: "≤ 1.5 ×", Met: true}, "| 5: 1.00–3.00 | – | – | – | ≤ 1.5 × | yes |"},
		{bench.Result{Value: 2, Min: 2, Max: 2, Unit: "s", Rounds: 1, Goal: "≤ 1.5 ×", Met: true}, "| 1 | – | – | – | ≤ 1.5 × | too few rounds |"},
		{bench.Result{Value: 2, Min: 2, Max: 2, Unit: "s", Rounds: 2, Goal: "≤ 1.5 ×"}, "| too few rounds |"},
		{bench.Result{Value: 1, Min: 1, Max: 1, Rounds: 1, Goal: "≤ 1.0 ×", Met: true}, "| ≤ 1.0 × | yes |"},
	} {
		if got := benchmarkTable(jsonfile.Run[bench.Result]{Results: []bench.Result{c.result}}); !strings.Contains(got, c.want) {
			t.Errorf("%+v: %s, want %s", c.result, got, c.want)
		}
	}
}
