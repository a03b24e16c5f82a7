package soak

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/jsonfile"
	"github.com/kubequorum/terraform-provider-kube/internal/load"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Result is the number of attempts and of those that passed.
type Result struct {
	Name   string `json:"name"`
	Tried  int    `json:"tried"`
	Passed int    `json:"passed"`
	Detail string `json:"detail"`
	// Skipped is why nothing was tried, if that is no failure.
	Skipped string `json:"skipped,omitempty"`
	// Scenario is the name of the scenario.
	Scenario string `json:"scenario,omitempty"`
	// Chosen is why the machine that lost its power was this one.
	Chosen string `json:"chosen,omitempty"`
	// Criteria are what must hold, in words.
	Criteria []string `json:"criteria,omitempty"`
	// Violated are the criteria that do not hold, in words.
	Violated []string `json:"violated,omitempty"`
	// Verdict says whether all criteria are met.
	Verdict Verdict `json:"verdict,omitempty"`
	// Observed are the figures of clients, for each time that they ran.
	Observed []load.Summary `json:"observed,omitempty"`
	// Figures are values of each time that something was done.
	Figures []jsonfile.Figure `json:"figures,omitempty"`
	// Series is what clients observed over time, if there were any; tools/plots draws it.
	Series []load.Series `json:"series,omitempty"`
}

// Verdict is whether criteria are met.
type Verdict string

// The verdicts. A result without an attempt has met nothing.
const (
	Met         Verdict = "met"
	NotMet      Verdict = "not met"
	NotMeasured Verdict = "not measured"
)

// conclude sets the verdict, and the criteria of a result that has none of its own: each attempt
// passes.
func (r *Result) conclude(scenario string) {
	r.Scenario = scenario
	if len(r.Criteria) == 0 {
		r.Criteria = []string{"every attempt passes"}
	}
	if len(r.Violated) == 0 && r.Passed < r.Tried {
		r.Violated = []string{fmt.Sprintf("%d of %d attempts did not pass", r.Tried-r.Passed, r.Tried)}
	}
	switch {
	case len(r.Violated) > 0:
		r.Verdict = NotMet
	case r.Tried == 0:
		r.Verdict = NotMeasured
	default:
		r.Verdict = Met
	}
}

// Incomplete begins the detail of the result of a scenario that could not be completed.
const Incomplete = "incomplete: "

func incompleteResult(name string, err error) Result {
	return Result{Name: name, Tried: 1, Detail: Incomplete + err.Error()}
}

// uncompleted adds to the results of a change that it did not complete, if err says so. What clients observed until
// then is no result of the change.
func uncompleted(results []Result, err error) []Result {
	if err != nil {
		for i := range results {
			results[i].Violated = append(results[i].Violated, "the change did not complete: "+problem.Line(err.Error()))
		}
	}
	return results
}

// skippedResult is the result of a scenario that lacks what this project does not build.
func skippedResult(name string, reason error) Result {
	return Result{Name: name, Skipped: reason.Error()}
}

// failed counts the results that are not met. One without an attempt shows nothing, unless it says that it was skipped.
func failed(results []Result) int {
	n := 0
	for _, r := range results {
		if r.Skipped == "" && (r.Tried == 0 || r.Passed < r.Tried || len(r.Violated) > 0) {
			n++
		}
	}
	return n
}

// skipped lists what was skipped, and why, one on each line.
func skipped(results []Result) string {
	text := ""
	for _, r := range results {
		if r.Skipped != "" {
			text += fmt.Sprintf("skipped: %s: %s\n", r.Name, r.Skipped)
		}
	}
	return text
}

// Table formats results in columns. It shows only the first line of a detail.
func Table(results []Result) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "WHAT\tTRIED\tPASSED\tDETAIL")
	for _, r := range results {
		first, _, _ := strings.Cut(r.Detail, "\n")
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\n", r.Name, r.Tried, r.Passed, first)
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
