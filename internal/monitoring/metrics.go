package monitoring

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Metric is a metric of a job of the scrape configuration.
type Metric struct{ Job, Name string }

// selector is a metric in a query with its job, or with several that are separated by "|": all queries here select by
// both, but those about plans.
var selector = regexp.MustCompile(`([a-zA-Z_:][a-zA-Z0-9_:]*)\{(?:job=~?"([^"]*)")?`)

// Metrics returns the metrics of jobs that alerts and dashboards need, sorted. Those that rules record are not among
// them, nor those about plans, and neither is up, which Prometheus makes itself.
func Metrics(f Facts) []Metric {
	var queries []string
	for _, group := range Groups(f) {
		for _, rule := range group.Rules {
			queries = append(queries, rule.Expr)
		}
	}
	for _, p := range slices.Concat(f.etcdPanels(), f.kubernetesPanels(), f.operationsPanels()) {
		for _, target := range p.Targets {
			queries = append(queries, target.Expr)
		}
	}
	metrics := map[Metric]bool{}
	for _, query := range queries {
		for _, match := range selector.FindAllStringSubmatch(query, -1) {
			if name := match[1]; name != "up" && match[2] != "" && !strings.HasPrefix(name, burnRateMetric) {
				for job := range strings.SplitSeq(match[2], "|") {
					metrics[Metric{Job: job, Name: name}] = true
				}
			}
		}
	}
	return slices.SortedFunc(maps.Keys(metrics), func(a, b Metric) int {
		return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Name, b.Name))
	})
}
