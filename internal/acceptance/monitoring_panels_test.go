package acceptance

import (
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/jsonfile"
)

// panelsFile is the environment variable with the file to which TestMonitoring writes what the panels of the
// dashboards show. tools/plots draws it.
const panelsFile = "KUBE_TEST_PANELS"

// panelsStep is the time between two points of a panel.
const panelsStep = 15 * time.Second

// mayBeEmpty are the panels that may show nothing: while nothing waits or fails, without Pods, and without a
// program that knows the offset of the clock.
var mayBeEmpty = map[string]bool{
	"Requests refused": true, "Work queues, depth": true, "Scheduling attempts": true, "Offset of the clock": true,
}

// shownDashboard is what the panels of a dashboard show.
type shownDashboard struct {
	Title  string       `json:"title"`
	Panels []shownPanel `json:"panels"`
}

type shownPanel struct {
	Title  string        `json:"title"`
	Type   string        `json:"type"`
	Unit   string        `json:"unit,omitempty"`
	Limit  *float64      `json:"limit,omitempty"`
	Series []shownSeries `json:"series"`
}

type shownSeries struct {
	Name   string       `json:"name"`
	Points [][2]float64 `json:"points"` // seconds since 1970, value
}

// dashboardFile is what is read of a file of Grafana.
type dashboardFile struct {
	Title  string
	Panels []struct {
		Title, Type string
		Targets     []struct{ Expr, LegendFormat string }
		FieldConfig struct {
			Defaults struct {
				Unit       string
				Thresholds struct{ Steps []struct{ Value *float64 } }
			}
		}
	}
}

// show evaluates every panel of the dashboards in a directory, from a time until now.
func (p prometheus) show(t *testing.T, dir string, from time.Time) []shownDashboard {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no dashboards in %s: %v", dir, err)
	}
	var all []shownDashboard
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var d dashboardFile
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatal(err)
		}
		shown := shownDashboard{Title: d.Title}
		for _, panel := range d.Panels {
			s := shownPanel{Title: panel.Title, Type: panel.Type, Unit: panel.FieldConfig.Defaults.Unit}
			for _, step := range panel.FieldConfig.Defaults.Thresholds.Steps {
				if step.Value != nil {
					s.Limit = step.Value
				}
			}
			for _, target := range panel.Targets {
				s.Series = append(s.Series, p.evaluate(t, target.Expr, target.LegendFormat, from)...)
			}
			shown.Panels = append(shown.Panels, s)
		}
		all = append(all, shown)
	}
	return all
}

// evaluate returns the series of an expression of a panel.
func (p prometheus) evaluate(t *testing.T, expr, legend string, from time.Time) []shownSeries {
	t.Helper()
	query := url.Values{
		"query": {strings.ReplaceAll(expr, "$__rate_interval", "1m")}, "step": {panelsStep.String()},
		"start": {strconv.FormatInt(from.Unix(), 10)}, "end": {strconv.FormatInt(time.Now().Unix(), 10)},
	}
	var data struct {
		Result []struct {
			Metric map[string]string
			Values [][2]any
		}
	}
	if !p.get(t, "query_range?"+query.Encode(), &data) {
		t.Fatalf("Prometheus does not answer %s", expr)
	}
	var all []shownSeries
	for _, r := range data.Result {
		s := shownSeries{Name: named(legend, r.Metric)}
		for _, v := range r.Values {
			at, ok := v[0].(float64)
			text, isText := v[1].(string)
			value, err := strconv.ParseFloat(text, 64)
			if !ok || !isText || err != nil {
				t.Fatalf("%s has the value %v", expr, v)
			}
			s.Points = append(s.Points, [2]float64{at, value})
		}
		all = append(all, s)
	}
	return all
}

var legendLabel = regexp.MustCompile(`\{\{ *(\w+) *\}\}`)

// named returns the name of a series as Grafana shows it.
func named(legend string, labels map[string]string) string {
	return legendLabel.ReplaceAllStringFunc(legend, func(match string) string {
		return labels[legendLabel.FindStringSubmatch(match)[1]]
	})
}

// expectShown fails for each panel without data, and writes what they show to the file that panelsFile names.
func expectShown(t *testing.T, dashboards []shownDashboard) {
	t.Helper()
	for _, d := range dashboards {
		for _, panel := range d.Panels {
			if len(panel.Series) == 0 && !mayBeEmpty[panel.Title] {
				t.Errorf("%s: the panel %q shows nothing", d.Title, panel.Title)
			}
		}
	}
	path := os.Getenv(panelsFile)
	if path == "" {
		return
	}
	commit, err := build.Commit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// A value that is no number, such as a quotient of nothing, is no JSON either.
	for _, d := range dashboards {
		for _, panel := range d.Panels {
			for i := range panel.Series {
				panel.Series[i].Points = numbers(panel.Series[i].Points)
			}
		}
	}
	run := jsonfile.Run[shownDashboard]{Commit: commit, Date: time.Now().UTC().Truncate(time.Second), Results: dashboards}
	if err := jsonfile.Write(path, run, 0o644); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(t.Output(), "written:", path)
}

// numbers returns the points whose value is a number.
func numbers(points [][2]float64) [][2]float64 {
	kept := [][2]float64{}
	for _, point := range points {
		if !math.IsNaN(point[1]) && !math.IsInf(point[1], 0) {
			kept = append(kept, point)
		}
	}
	return kept
}
