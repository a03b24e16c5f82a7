package main

import (
	"fmt"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// result is one figure of a benchmark beside what it is compared with.
type result struct {
	Name      string  `json:"name"`
	Value     float64 `json:"value"`
	Unit      string  `json:"unit"`
	Reference float64 `json:"reference"`
}

// drawBench draws the times that have a reference beside it.
func drawBench(file, out string) error {
	results, err := read[result](file)
	if err != nil {
		return err
	}
	results = slices.DeleteFunc(results, func(r result) bool {
		return r.Reference <= 0 || r.Unit != "s" || strings.Contains(r.Name, "database of") // drawRecovery draws those
	})
	if len(results) == 0 {
		return nil
	}
	slices.Reverse(results) // the first one is drawn at the top
	var names []string
	var measured, reference plotter.Values
	for _, r := range results {
		names = append(names, fmt.Sprintf("%s: × %.2f", label(r.Name), r.Value/r.Reference))
		measured, reference = append(measured, r.Value), append(reference, r.Reference)
	}
	p := plot.New()
	p.Title.Text = "Time beside its reference"
	p.X.Label.Text = "seconds"
	width := vg.Points(7)
	for i, values := range []plotter.Values{reference, measured} {
		bars, err := plotter.NewBarChart(values, width)
		if err != nil {
			return err
		}
		bars.Horizontal, bars.Color, bars.LineStyle.Width = true, colors[1-i], 0
		bars.Offset = width * (vg.Length(i) - 0.5)
		p.Add(bars)
		p.Legend.Add([]string{"reference", "provider"}[i], bars)
	}
	p.NominalY(names...)
	return save(sized{p, 24 * vg.Centimeter, vg.Length(len(results))*vg.Points(22) + 3*vg.Centimeter}, out, "bench.svg")
}

// label returns a name that leaves room for the bars.
func label(name string) string {
	for _, short := range []struct{ part, by string }{
		{"terraform ", ""},
		{"100 simulated control planes of three (900 resources), against", "900 resources, beside"},
		{"the same without observing any machine (-refresh=false)", "-refresh=false"},
		{"as many of terraform_data", "terraform_data"},
		{"upgrade of etcd and Kubernetes by a minor version, against a script that", "upgrade, beside a script that"},
		{" (its replica pauses)", ""},
		{", against a script", ""},
		{", against the first floor", ""},
		{" of all three API servers", ""},
	} {
		name = strings.Replace(name, short.part, short.by, 1)
	}
	return name
}
