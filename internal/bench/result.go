package bench

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/kubequorum/terraform-provider-kube/internal/jsonfile"
)

// Result is one measured figure with its reference, both from the same run. Absolute times of
// another run or machine are not comparable.
type Result struct {
	Name      string  `json:"name"`
	Value     float64 `json:"value"`
	Unit      string  `json:"unit"`
	Reference float64 `json:"reference"` // 0: no reference
	Ratio     float64 `json:"ratio"`     // value / reference, or value − reference if the goal is a difference
	Goal      string  `json:"goal"`
	Met       bool    `json:"met"`
}

// ratio returns a result whose goal is a multiple of the reference.
func ratio(name string, value, reference, most float64, unit string) Result {
	r := value / reference
	return Result{
		Name: name, Value: value, Unit: unit, Reference: reference, Ratio: r,
		Goal: fmt.Sprintf("≤ %.1f ×", most), Met: r <= most,
	}
}

// difference returns a result whose goal is a maximum difference from the reference.
func difference(name string, value, reference, most float64, unit string) Result {
	d := value - reference
	return Result{
		Name: name, Value: value, Unit: unit, Reference: reference, Ratio: d,
		Goal: fmt.Sprintf("≤ +%.1f %s", most, unit), Met: d <= most,
	}
}

// ratioTo returns a result with a reference but without a goal.
func ratioTo(name string, value, reference float64, unit string) Result {
	return Result{Name: name, Value: value, Unit: unit, Reference: reference, Ratio: value / reference, Met: true}
}

// figure returns a result without a goal.
func figure(name string, value float64, unit string) Result {
	return Result{Name: name, Value: value, Unit: unit, Met: true}
}

// Table formats results in columns.
func Table(results []Result) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "WHAT\tMEASURED\tREFERENCE\tRATIO\tGOAL\tMET")
	for _, r := range results {
		reference, compared, met := "–", "–", "–"
		if r.Reference > 0 {
			reference = fmt.Sprintf("%.2f %s", r.Reference, r.Unit)
			compared = fmt.Sprintf("%.2f", r.Ratio)
		}
		if r.Goal != "" {
			met = map[bool]string{true: "yes", false: "no"}[r.Met]
		}
		fmt.Fprintf(w, "%s\t%.2f %s\t%s\t%s\t%s\t%s\n", r.Name, r.Value, r.Unit, reference, compared, r.Goal, met)
	}
	_ = w.Flush() // a strings.Builder never fails
	return b.String()
}

// write writes results as JSON to the file at path, if path is set.
func write(path string, results []Result) error {
	if path == "" {
		return nil
	}
	return jsonfile.Write(path, results, 0o644)
}
