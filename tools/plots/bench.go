package main

import (
	"fmt"
	"slices"

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
	var results []result
	if err := read(file, &results); err != nil {
		return err
	}
	results = slices.DeleteFunc(results, func(r result) bool { return r.Reference <= 0 || r.Unit != "s" })
	if len(results) == 0 {
		return nil
	}
	slices.Reverse(results) // the first one is drawn at the top
	var names []string
	var measured, reference plotter.Values
	for _, r := range results {
		names = append(names, fmt.Sprintf("%s (× %.2f)", r.Name, r.Value/r.Reference))
		measured, reference = append(measured, r.Value), append(reference, r.Reference)
	}
	p := plot.New()
	p.Title.Text = "Time of an apply beside its floor"
	p.X.Label.Text = "seconds"
	p.Legend.Top = true
	width := vg.Points(7)
	for i, values := range []plotter.Values{reference, measured} {
		bars, err := plotter.NewBarChart(values, width)
		if err != nil {
			return err
		}
		bars.Horizontal, bars.Color, bars.LineStyle.Width = true, colors[1-i], 0
		bars.Offset = width * (vg.Length(i) - 0.5)
		p.Add(bars)
		p.Legend.Add([]string{"floor", "provider"}[i], bars)
	}
	p.NominalY(names...)
	return save(sized{p, 20 * vg.Centimeter, vg.Length(len(results))*vg.Points(22) + 3*vg.Centimeter}, out, "bench.svg")
}
