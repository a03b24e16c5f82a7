package prometheus

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/kubequorum/terraform-provider-kube/internal/monitoring"
)

// board is the part of a dashboard of Grafana that the tests read.
type board struct {
	UID    string `json:"uid"`
	Panels []struct {
		ID      int    `json:"id"`
		Title   string `json:"title"`
		GridPos struct {
			H, W, X, Y int
		} `json:"gridPos"`
		Targets []struct {
			RefID string `json:"refId"`
			Expr  string `json:"expr"`
		} `json:"targets"`
	} `json:"panels"`
}

func boards(t *testing.T) map[string]board {
	t.Helper()
	all := map[string]board{}
	for name, render := range map[string]func(monitoring.Facts) (string, error){
		"etcd": monitoring.DashboardETCD, "kubernetes": monitoring.DashboardKubernetes,
		"operations": monitoring.DashboardOperations,
	} {
		text, err := render(facts)
		if err != nil {
			t.Fatal(err)
		}
		var b board
		if err := json.Unmarshal([]byte(text), &b); err != nil {
			t.Fatal(err)
		}
		all[name] = b
	}
	return all
}

// TestDashboards: queries parse, and panels have their own number and place.
func TestDashboards(t *testing.T) {
	uids := map[string]bool{}
	for name, b := range boards(t) {
		if uids[b.UID] || len(b.UID) == 0 || len(b.UID) > 40 {
			t.Errorf("%s: uid %q", name, b.UID)
		}
		uids[b.UID] = true
		ids, titles, places := map[int]bool{}, map[string]bool{}, map[[2]int]bool{}
		for _, p := range b.Panels {
			place := [2]int{p.GridPos.X, p.GridPos.Y}
			if ids[p.ID] || titles[p.Title] || places[place] || p.GridPos.X+p.GridPos.W > 24 {
				t.Errorf("%s: panel %d, %q at %v is there twice, or too wide", name, p.ID, p.Title, place)
			}
			ids[p.ID], titles[p.Title], places[place] = true, true, true
			refs := map[string]bool{}
			for _, target := range p.Targets {
				if _, err := parse(target.Expr); err != nil {
					t.Errorf("%s: %s: %v", name, p.Title, err)
				}
				if refs[target.RefID] {
					t.Errorf("%s: %s: refId %s twice", name, p.Title, target.RefID)
				}
				refs[target.RefID] = true
			}
		}
	}
}

// parse parses a query of Grafana, which knows the length of its interval.
func parse(query string) (parser.Expr, error) {
	return parser.NewParser(parser.Options{}).ParseExpr(strings.ReplaceAll(query, "$__rate_interval", "5m"))
}

// TestMetricNames: the metrics that are said to be needed are those that the queries select, and each
// series is of this control plane.
func TestMetricNames(t *testing.T) {
	selected := map[monitoring.Metric]bool{}
	visit := func(query string) {
		expr, err := parse(query)
		if err != nil {
			t.Fatal(err)
		}
		parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
			if s, ok := node.(*parser.VectorSelector); ok {
				if s.Name != "up" && !strings.Contains(s.Name, ":") {
					for _, job := range jobsOf(s.LabelMatchers) {
						selected[monitoring.Metric{Job: job, Name: s.Name}] = true
					}
				}
				if !ofCluster(s.LabelMatchers) {
					t.Errorf("%s: %s of every control plane", query, s.Name)
				}
			}
			return nil
		})
	}
	for _, group := range monitoring.Groups(facts) {
		for _, rule := range group.Rules {
			visit(rule.Expr)
		}
	}
	for _, b := range boards(t) {
		for _, p := range b.Panels {
			for _, target := range p.Targets {
				visit(target.Expr)
			}
		}
	}
	got := map[monitoring.Metric]bool{}
	for _, metric := range monitoring.Metrics(facts) {
		got[metric] = true
	}
	if !maps.Equal(selected, got) {
		t.Errorf("needed %v\nselected %v", got, selected)
	}
}

// jobsOf returns the jobs that matchers select: none if they select no job.
func jobsOf(matchers []*labels.Matcher) []string {
	for _, m := range matchers {
		if m.Name == "job" && (m.Type == labels.MatchEqual || m.Type == labels.MatchRegexp) {
			return strings.Split(m.Value, "|")
		}
	}
	return nil
}

func ofCluster(matchers []*labels.Matcher) bool {
	return slices.ContainsFunc(matchers, func(m *labels.Matcher) bool {
		return m.Name == "cluster" && m.Type == labels.MatchEqual && m.Value == "prod"
	})
}
