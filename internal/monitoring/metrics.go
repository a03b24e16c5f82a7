package monitoring

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// selector is the name of a metric in a query: all queries here select by labels.
var selector = regexp.MustCompile(`([a-zA-Z_:][a-zA-Z0-9_:]*)\{`)

// Metrics returns the names of the metrics that alerts and dashboards need, sorted. Those that rules
// record are not among them, and neither is up, which Prometheus makes itself.
func Metrics(f Facts) []string {
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
	names := map[string]bool{}
	for _, query := range queries {
		for _, match := range selector.FindAllStringSubmatch(query, -1) {
			if name := match[1]; name != "up" && !strings.HasPrefix(name, burnRateMetric) {
				names[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}
