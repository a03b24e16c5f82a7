package main

import (
	"regexp"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// recovery is how long one operation takes, by the size of the database.
type recovery struct {
	name, against       string
	measured, reference plotter.XYs // GB, seconds
}

// recoveryName is the name of a result with a database (internal/bench, database.named).
var recoveryName = regexp.MustCompile(`^terraform apply, (.+), database of ([0-9]+) (MB|GB), against (.+)$`)

// recoveries returns the operations in the order of the results, and the points of each from the smallest database to
// the largest.
func recoveries(results []result) []recovery {
	var all []recovery
	for _, r := range results {
		parts := recoveryName.FindStringSubmatch(r.Name)
		if parts == nil || r.Reference <= 0 || r.Unit != "s" {
			continue
		}
		size, err := strconv.ParseFloat(parts[2], 64)
		if err != nil {
			continue
		}
		if parts[3] == "MB" {
			size /= 1000
		}
		at := slices.IndexFunc(all, func(other recovery) bool { return other.name == parts[1] })
		if at < 0 {
			at, all = len(all), append(all, recovery{name: parts[1], against: parts[4]})
		}
		all[at].measured = append(all[at].measured, plotter.XY{X: size, Y: r.Value})
		all[at].reference = append(all[at].reference, plotter.XY{X: size, Y: r.Reference})
	}
	for _, r := range all {
		for _, points := range []plotter.XYs{r.measured, r.reference} {
			slices.SortFunc(points, func(a, b plotter.XY) int { return int(a.X*1000) - int(b.X*1000) })
		}
	}
	return all
}

// drawRecovery draws the times until a lost cluster serves again and until a member has moved, by the size of the
// database.
func drawRecovery(file, out string) error {
	results, err := read[result](file)
	if err != nil {
		return err
	}
	all := recoveries(results)
	if len(all) == 0 {
		return nil
	}
	p := plot.New()
	p.Title.Text = "Time until three members serve, by the size of the database"
	p.X.Label.Text, p.Y.Label.Text = "GB", "seconds"
	p.Add(plotter.NewGrid())
	p.Legend.Top, p.Legend.Left = true, true
	for i, r := range all {
		for _, series := range []struct {
			name   string
			points plotter.XYs
			dashes []vg.Length
		}{
			{r.name, r.measured, nil},
			{r.name + ": " + r.against, r.reference, []vg.Length{vg.Points(4), vg.Points(3)}},
		} {
			line, points, err := plotter.NewLinePoints(series.points)
			if err != nil {
				return err
			}
			line.Color, line.Width, line.Dashes = lineColors[i%len(lineColors)], vg.Points(1.2), series.dashes
			points.GlyphStyle = draw.GlyphStyle{Color: line.Color, Radius: vg.Points(2.5), Shape: draw.CircleGlyph{}}
			p.Add(line, points)
			p.Legend.Add(series.name, line, points)
		}
	}
	p.X.Min, p.Y.Min = 0, 0
	p.Y.Max *= 1.4 // room for the legend
	return save(sized{p, 20 * vg.Centimeter, 12 * vg.Centimeter}, out, "recovery.svg")
}
