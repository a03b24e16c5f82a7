package main

import (
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// dashboard is what the panels of a dashboard showed, as TestMonitoring writes it.
type dashboard struct {
	Title  string  `json:"title"`
	Panels []panel `json:"panels"`
}

type panel struct {
	Title  string   `json:"title"`
	Type   string   `json:"type"` // of Grafana: timeseries or stat
	Unit   string   `json:"unit"` // of Grafana
	Limit  *float64 `json:"limit"`
	Series []struct {
		Name   string       `json:"name"`
		Points [][2]float64 `json:"points"` // seconds since 1970, value
	} `json:"series"`
}

// columns is how many panels stand side by side, as in Grafana.
const columns = 3

var lineColors = []color.Color{
	color.RGBA{R: 0x1f, G: 0x5f, B: 0xa8, A: 0xff}, color.RGBA{R: 0x6a, G: 0x9f, B: 0x3c, A: 0xff},
	color.RGBA{R: 0xd0, G: 0x8a, B: 0x1c, A: 0xff}, color.RGBA{R: 0x7a, G: 0x4f, B: 0xa0, A: 0xff},
	color.RGBA{R: 0x30, G: 0x9a, B: 0x9a, A: 0xff}, color.RGBA{R: 0x80, G: 0x60, B: 0x40, A: 0xff},
}

// most is how many series the legend of a panel names.
const most = 6

// drawDashboards draws each dashboard of a file, into dashboard-NAME.svg.
func drawDashboards(file, out string) error {
	all, err := read[dashboard](file)
	if err != nil {
		return err
	}
	for _, d := range all {
		if err := d.draw(out); err != nil {
			return fmt.Errorf("draw %s: %w", d.Title, err)
		}
	}
	return nil
}

var noWord = regexp.MustCompile(`[^a-z0-9]+`)

// name returns the part of the title after the cluster, for a file.
func (d dashboard) name() string {
	title := d.Title
	if _, kind, ok := strings.Cut(title, " / "); ok {
		title = kind
	}
	return strings.Trim(noWord.ReplaceAllString(strings.ToLower(title), "-"), "-")
}

func (d dashboard) draw(out string) error {
	rows := (len(d.Panels) + columns - 1) / columns
	var plots [][]*plot.Plot
	for i, each := range d.Panels {
		if i%columns == 0 {
			plots = append(plots, make([]*plot.Plot, columns))
		}
		p, err := each.plot()
		if err != nil {
			return fmt.Errorf("%s: %w", each.Title, err)
		}
		plots[i/columns][i%columns] = p
	}
	canvas := vgsvg.New(30*vg.Centimeter, vg.Length(rows)*6*vg.Centimeter)
	tiles := draw.Tiles{
		Rows: rows, Cols: columns, PadX: vg.Millimeter * 4, PadY: vg.Millimeter * 4, PadTop: vg.Millimeter * 2,
		PadBottom: vg.Millimeter * 2, PadLeft: vg.Millimeter * 2, PadRight: vg.Millimeter * 4,
	}
	for y, row := range plot.Align(plots, tiles, draw.New(canvas)) {
		for x, tile := range row {
			if plots[y][x] != nil {
				plots[y][x].Draw(tile)
			}
		}
	}
	path := filepath.Join(out, "dashboard-"+d.name()+".svg")
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if _, err = canvas.WriteTo(file); err != nil {
		_ = file.Close()
		return err
	}
	fmt.Println(path)
	return file.Close()
}

// plot returns the lines of a panel, over minutes since its first point. A panel of the type stat shows the last
// value.
func (p panel) plot() (*plot.Plot, error) {
	drawn := plot.New()
	drawn.Title.Text = p.Title
	drawn.Title.TextStyle.Font.Size = vg.Points(9)
	for _, axis := range []*plot.Axis{&drawn.X, &drawn.Y} {
		axis.Tick.Label.Font.Size = vg.Points(6)
	}
	drawn.Legend.TextStyle.Font.Size = vg.Points(6)
	drawn.Legend.Top, drawn.Legend.ThumbnailWidth, drawn.Legend.XOffs = true, vg.Points(8), -vg.Points(3)
	if p.Type == "stat" {
		return drawn, p.state(drawn)
	}
	drawn.Add(plotter.NewGrid())
	first, greatest := p.first(), p.greatest()
	unit := unitOf(p.Unit, greatest)
	drawn.X.Tick.Marker, drawn.Y.Tick.Marker = marks{" min"}, marks{unit.suffix}
	drawn.X.Min, drawn.X.Max, drawn.Y.Min, drawn.Y.Max = 0, 1, 0, 0
	for i, s := range p.Series {
		points := make(plotter.XYs, len(s.Points))
		for at, point := range s.Points {
			points[at] = plotter.XY{X: (point[0] - first) / 60, Y: point[1] * unit.factor}
		}
		if len(points) == 0 {
			continue
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			return nil, err
		}
		line.Color = lineColors[i%len(lineColors)]
		drawn.Add(line)
		if i < most && s.Name != "" {
			drawn.Legend.Add(s.Name, line)
		}
	}
	if drawn.Y.Max *= 1.1; drawn.Y.Max == 0 {
		drawn.Y.Max = 1
	}
	p.limit(drawn, unit.factor)
	return drawn, nil
}

// first returns when the first series begins.
func (p panel) first() float64 {
	first := 0.0
	for _, s := range p.Series {
		if len(s.Points) > 0 && (first == 0 || s.Points[0][0] < first) {
			first = s.Points[0][0]
		}
	}
	return first
}

// greatest returns the greatest value.
func (p panel) greatest() float64 {
	greatest := 0.0
	for _, s := range p.Series {
		for _, point := range s.Points {
			greatest = max(greatest, point[1])
		}
	}
	return greatest
}

// limit draws the value from which on an alert fires, if it is near what is shown.
func (p panel) limit(drawn *plot.Plot, factor float64) {
	if p.Limit == nil || *p.Limit*factor > 3*drawn.Y.Max {
		return
	}
	line := plotter.NewFunction(func(float64) float64 { return *p.Limit * factor })
	line.Color, line.Dashes = failure, []vg.Length{vg.Points(4), vg.Points(2)}
	drawn.Add(line)
	drawn.Y.Max = max(drawn.Y.Max, *p.Limit*factor*1.1)
}

// state writes the last value of the first series, in red below the limit.
func (p panel) state(drawn *plot.Plot) error {
	drawn.HideAxes()
	value, shade := "no data", failure
	if len(p.Series) > 0 && len(p.Series[0].Points) > 0 {
		last := p.Series[0].Points[len(p.Series[0].Points)-1][1]
		value = fmt.Sprintf("%.4g%s", last*unitOf(p.Unit, last).factor, unitOf(p.Unit, last).suffix)
		if p.Limit == nil || last >= *p.Limit {
			shade = color.RGBA{R: 0x2f, G: 0x8f, B: 0x3f, A: 0xff}
		}
	}
	labels, err := plotter.NewLabels(plotter.XYLabels{XYs: plotter.XYs{{X: 0.5, Y: 0.5}}, Labels: []string{value}})
	if err != nil {
		return err
	}
	style := &labels.TextStyle[0]
	style.Color, style.Font.Size = shade, vg.Points(26)
	style.XAlign, style.YAlign = draw.XCenter, draw.YCenter
	drawn.Add(labels)
	drawn.X.Min, drawn.X.Max, drawn.Y.Min, drawn.Y.Max = 0, 1, 0, 1
	return nil
}

// unit is how values with a unit of Grafana are shown.
type unit struct {
	factor float64
	suffix string
}

// unitOf returns the unit for values of a panel up to most.
func unitOf(name string, most float64) unit {
	switch name {
	case "bytes":
		return unit{1.0 / (1 << 20), " MiB"}
	case "s":
		switch {
		case most < 1:
			return unit{1000, " ms"}
		case most < 600:
			return unit{1, " s"}
		case most < 48*3600:
			return unit{1.0 / 3600, " h"}
		}
		return unit{1.0 / 86400, " d"}
	case "percentunit":
		return unit{100, " %"}
	case "reqps":
		return unit{1, "/s"}
	}
	return unit{1, ""}
}

// marks are the usual ones with a suffix.
type marks struct{ suffix string }

// Ticks implements plot.Ticker.
func (m marks) Ticks(least, most float64) []plot.Tick {
	var labeled []plot.Tick
	for _, tick := range (plot.DefaultTicks{}).Ticks(least, most) {
		if tick.Label != "" {
			tick.Label += m.suffix
			labeled = append(labeled, tick)
		}
	}
	return labeled
}
