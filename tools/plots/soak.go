package main

import (
	"errors"
	"fmt"
	"image/color"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// interval is the length of one interval of a series (internal/load, Interval).
const interval = 500 * time.Millisecond

// row is one result of a soak, as far as it is drawn.
type row struct {
	Name   string   `json:"name"`
	Series []series `json:"series"`
}

// series is what one client saw over time.
type series struct {
	Name      string `json:"name"`
	Succeeded []int  `json:"succeeded"`
	Failed    []int  `json:"failed"`
	Gaps      []struct {
		Length time.Duration `json:"length"`
		At     time.Duration `json:"at"`
	} `json:"gaps"`
}

var (
	colors  = []color.Color{color.RGBA{R: 0x1f, G: 0x5f, B: 0xa8, A: 0xff}, color.RGBA{R: 0x6a, G: 0x9f, B: 0x3c, A: 0xff}}
	failure = color.RGBA{R: 0xc0, G: 0x20, B: 0x20, A: 0xff}
	shade   = color.NRGBA{R: 0xe0, G: 0x80, B: 0x20, A: 0x70}
)

// drawSoak draws the figures whose rows are in the file of a soak.
func drawSoak(file, out string) error {
	rows, err := read[row](file)
	for _, f := range figures {
		for _, r := range rows {
			if len(r.Series) == 0 || !strings.HasPrefix(r.Name, f.row) {
				continue
			}
			p, drawn := requests(f.title, r.Series)
			if drawn == nil {
				drawn = save(sized{p, 18 * vg.Centimeter, 7 * vg.Centimeter}, out, f.file)
			}
			err = errors.Join(err, drawn)
			break
		}
	}
	return err
}

// requests draws the requests per second of each client, the intervals in which
// some failed, and the times in which none succeeded.
func requests(title string, all []series) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = title
	p.X.Label.Text, p.Y.Label.Text = "seconds", "requests per second"
	p.Y.Min = 0
	p.Add(plotter.NewGrid())
	p.Legend.Top = true
	tried, failed, top := 0, 0, 0.0
	var failures plotter.XYs
	for i, s := range all {
		points := make(plotter.XYs, len(s.Succeeded))
		for at, n := range s.Succeeded {
			points[at] = plotter.XY{X: float64(at) * interval.Seconds(), Y: float64(n) / interval.Seconds()}
			top = max(top, points[at].Y)
			tried, failed = tried+n+s.Failed[at], failed+s.Failed[at]
			if s.Failed[at] > 0 {
				failures = append(failures, plotter.XY{X: points[at].X, Y: points[at].Y})
			}
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			return nil, err
		}
		line.Color, line.Width = colors[i%len(colors)], vg.Points(1.2)
		p.Add(line)
		p.Legend.Add("client on "+s.Name+" connections", line)
	}
	p.Y.Max = top * 1.7
	if err := addGaps(p, all); err != nil {
		return nil, err
	}
	if len(failures) > 0 {
		marks, err := plotter.NewScatter(failures)
		if err != nil {
			return nil, err
		}
		marks.GlyphStyle = draw.GlyphStyle{Color: failure, Radius: vg.Points(3), Shape: draw.CrossGlyph{}}
		p.Add(marks)
		p.Legend.Add("failed requests", marks)
	}
	p.Title.Text += fmt.Sprintf(": %d of %d requests failed", failed, tried)
	return p, nil
}

// addGaps shades the times without a success, from 200 ms on.
func addGaps(p *plot.Plot, all []series) error {
	named := false
	for _, s := range all {
		for _, g := range s.Gaps {
			from, to := g.At.Seconds(), (g.At + g.Length).Seconds()
			area, err := plotter.NewPolygon(plotter.XYs{{X: from, Y: 0}, {X: to, Y: 0}, {X: to, Y: p.Y.Max}, {X: from, Y: p.Y.Max}})
			if err != nil {
				return err
			}
			area.Color, area.LineStyle.Width = shade, 0
			p.Add(area)
			if !named {
				p.Legend.Add("no success for 200 ms or more", area)
				named = true
			}
		}
	}
	return nil
}

// sized is a plot with its size on paper.
type sized struct {
	*plot.Plot
	width, height vg.Length
}

// Save writes it to the file at path, in the format of its extension.
func (s sized) Save(path string) error { return s.Plot.Save(s.width, s.height, path) }
