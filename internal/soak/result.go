package soak

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/kubequorum/terraform-provider-kube/internal/jsonfile"
	"github.com/kubequorum/terraform-provider-kube/internal/load"
)

// Result is the number of attempts and of those that passed.
type Result struct {
	Name   string `json:"name"`
	Tried  int    `json:"tried"`
	Passed int    `json:"passed"`
	Detail string `json:"detail"`
	// Series is what clients observed over time, if there were any; tools/plots draws it.
	Series []load.Series `json:"series,omitempty"`
}

// incompleteResult is the result of a scenario that could not be completed.
func incompleteResult(name string, err error) Result {
	return Result{Name: name, Tried: 1, Detail: "incomplete: " + err.Error()}
}

func failed(results []Result) int {
	n := 0
	for _, r := range results {
		if r.Passed < r.Tried {
			n++
		}
	}
	return n
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

// write writes results as JSON to the file at path, if path is set.
func write(path string, results []Result) error {
	if path == "" {
		return nil
	}
	return jsonfile.Write(path, results, 0o644)
}
