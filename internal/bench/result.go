package bench

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/jsonfile"
)

// Result is one measured figure with its reference, both from the same run. Absolute times of
// another run or machine are not comparable. Value and Reference are medians.
type Result struct {
	Name         string  `json:"name"`
	Value        float64 `json:"value"`
	Min          float64 `json:"min"`
	Max          float64 `json:"max"`
	Unit         string  `json:"unit"`
	Reference    float64 `json:"reference"` // 0: no reference
	ReferenceMin float64 `json:"reference_min"`
	ReferenceMax float64 `json:"reference_max"`
	Ratio        float64 `json:"ratio"`  // value / reference, or value − reference if the goal is a difference
	Rounds       int     `json:"rounds"` // 0: a single value
	Goal         string  `json:"goal"`
	Met          bool    `json:"met"`
}

// compared returns a result with a reference but without a ratio and a goal.
func compared(name string, values, references series, unit string) Result {
	r := measured(name, values, unit)
	r.Reference, r.ReferenceMin, r.ReferenceMax = references.median(), references.min(), references.max()
	return r
}

// ratio returns a result whose goal is a multiple of the reference.
func ratio(name string, values, references series, most float64, unit string) Result {
	r := ratioTo(name, values, references, unit)
	r.Goal, r.Met = fmt.Sprintf("≤ %.1f ×", most), r.Ratio <= most
	return r
}

// atMost returns a result without a reference, whose goal is a maximum.
func atMost(name string, values series, most float64, unit string) Result {
	r := measured(name, values, unit)
	r.Goal, r.Met = fmt.Sprintf("≤ %.0f %s", most, unit), r.Value <= most
	return r
}

// difference returns a result whose goal is a maximum difference from the reference.
func difference(name string, values, references series, most float64, unit string) Result {
	r := compared(name, values, references, unit)
	r.Ratio = r.Value - r.Reference
	r.Goal, r.Met = fmt.Sprintf("≤ +%.1f %s", most, unit), r.Ratio <= most
	return r
}

// ratioTo returns a result with a reference but without a goal.
func ratioTo(name string, values, references series, unit string) Result {
	r := compared(name, values, references, unit)
	r.Ratio = r.Value / r.Reference
	return r
}

// measured returns a result without a reference.
func measured(name string, values series, unit string) Result {
	return Result{
		Name: name, Value: values.median(), Min: values.min(), Max: values.max(), Unit: unit, Rounds: len(values), Met: true,
	}
}

// figure returns a single value without a reference.
func figure(name string, value float64, unit string) Result {
	return Result{Name: name, Value: value, Min: value, Max: value, Unit: unit, Met: true}
}

// Table formats results in columns, with the least and the most of all rounds.
func Table(results []Result) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "WHAT\tMEASURED\tMIN–MAX\tREFERENCE\tMIN–MAX\tRATIO\tGOAL\tMET")
	for _, r := range results {
		spread, reference, among, compared, met := "–", "–", "–", "–", "–"
		if r.Rounds > 1 {
			spread = fmt.Sprintf("%.2f–%.2f", r.Min, r.Max)
		}
		if r.Reference > 0 {
			reference = fmt.Sprintf("%.2f %s", r.Reference, r.Unit)
			among = fmt.Sprintf("%.2f–%.2f", r.ReferenceMin, r.ReferenceMax)
			compared = fmt.Sprintf("%.2f", r.Ratio)
		}
		if r.Goal != "" {
			met = map[bool]string{true: "yes", false: "no"}[r.Met]
		}
		fmt.Fprintf(w, "%s\t%.2f %s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Name, r.Value, r.Unit, spread, reference, among,
			compared, r.Goal, met)
	}
	_ = w.Flush() // a strings.Builder never fails
	return b.String()
}

// write writes a run as JSON to the file at path, if path is set. Programs are built of the checkout until its end.
func write(ctx context.Context, path string, run *jsonfile.Run[Result]) (err error) {
	if path == "" {
		return nil
	}
	if run.Commit, err = build.CommitSince(ctx, run.Commit); err != nil {
		return err
	}
	return jsonfile.Write(path, run, 0o644)
}
