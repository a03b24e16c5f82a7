package monitoring

import (
	"fmt"
	"strings"
)

// The error budget of the API: of the requests of 30 days, 1 % may fail or be slow.
const errorBudget = "0.01"

// burnRateMetric is what is recorded of the budget: errors and slow requests as a part of all
// requests within a window, whose length is appended to the name.
const burnRateMetric = "cluster_verb:apiserver_request:burnrate"

// readVerbs and writeVerbs are the requests that the budget counts: watches last, and count for nothing.
const (
	readVerbs  = "LIST|GET"
	writeVerbs = "POST|PUT|PATCH|DELETE"
)

// burnRateRules are KubeAPIErrorBudgetBurn of kubernetes-mixin (alerts/kube_apiserver.libsonnet), and
// the rules that record what it compares (rules/kube_apiserver-burnrate.libsonnet). Reads and writes
// have a budget each, where the mixin adds their parts. The longest window is three days, so
// Prometheus need not keep more.
func (f Facts) burnRateRules() []Rule {
	var rules []Rule
	for _, window := range []string{"5m", "30m", "1h", "2h", "6h", "1d", "3d"} {
		rules = append(rules,
			Rule{
				Record: burnRateMetric + window, Labels: map[string]string{"verb": "read"},
				Expr: f.burnRate(readVerbs, window, f.fastRead(window)),
			},
			Rule{
				Record: burnRateMetric + window, Labels: map[string]string{"verb": "write"},
				Expr: f.burnRate(writeVerbs, window, f.fast(writeVerbs, "", "1", window)),
			})
	}
	for _, burn := range []struct{ long, short, lasts, severity, factor, gone string }{
		{"1h", "5m", "2m", critical, "14.4", "two days"},
		{"6h", "30m", "15m", critical, "6", "five days"},
		{"1d", "2h", "1h", warning, "3", "ten days"},
		{"3d", "6h", "3h", warning, "1", "30 days"},
	} {
		over := func(window string) string {
			return fmt.Sprintf(`%s%s{cluster="%s"} > (%s * %s)`, burnRateMetric, window, f.Cluster, burn.factor, errorBudget)
		}
		rule := alert("KubeAPIErrorBudgetBurn", burn.severity, burn.lasts,
			over(burn.long)+" and "+over(burn.short),
			fmt.Sprintf("{{ $value | humanizePercentage }} of the {{ $labels.verb }} requests within %s failed or were slow: "+
				"the error budget of 30 days lasts %s at this rate.", burn.long, burn.gone),
			"Look at KubeAPIErrorsHigh, KubeAPILatencyHigh and the alerts about etcd, which say what fails or is slow, and "+
				"run terraform plan for the drift of kube_control_plane_replica and kube_etcd_member.")
		rule.Labels["long"], rule.Labels["short"] = burn.long, burn.short
		rules = append(rules, rule)
	}
	return rules
}

// The requests whose time depends on something else than the API server.
const notLong = `subresource!~"proxy|attach|log|exec|portforward"`

// forResources leaves out health checks: /readyz fails on purpose while a replica leaves rotation, and balancers ask
// for it more often than clients for anything else.
const forResources = `resource!=""`

// burnRate returns the part of the requests of some verbs that fail or are not fast.
func (f Facts) burnRate(verbs, window, fast string) string {
	verb := `verb=~"` + verbs + `",` + forResources
	all := fmt.Sprintf(`sum(rate(apiserver_request_total%s[%s]))`, f.of(jobAPIServer, verb), window)
	failed := fmt.Sprintf(`(sum(rate(apiserver_request_total%s[%s])) or vector(0))`,
		f.of(jobAPIServer, verb+`,code=~"5.."`), window)
	timed := fmt.Sprintf(`sum(rate(apiserver_request_sli_duration_seconds_count%s[%s]))`,
		f.of(jobAPIServer, verb+","+notLong), window)
	return fmt.Sprintf("((%s - (%s)) + %s) / %s", timed, fast, failed, all)
}

// fastRead returns the rate of fast requests that read: an object within 1 s, a namespace within 5 s,
// the whole cluster within 30 s.
func (f Facts) fastRead(window string) string {
	return strings.Join([]string{
		f.fast(readVerbs, "resource|", "1", window),
		f.fast(readVerbs, "namespace", "5", window),
		f.fast(readVerbs, "cluster", "30", window),
	}, " + ")
}

// fast returns the rate of requests of a scope ("" for any) that take at most some seconds.
func (f Facts) fast(verbs, scope, seconds, window string) string {
	matchers := []string{`verb=~"` + verbs + `"`, forResources, notLong, fmt.Sprintf(`le=~"%s(\\.0)?"`, seconds)}
	if scope != "" {
		matchers = append(matchers, `scope=~"`+scope+`"`)
	}
	return fmt.Sprintf(`(sum(rate(apiserver_request_sli_duration_seconds_bucket%s[%s])) or vector(0))`,
		f.of(jobAPIServer, strings.Join(matchers, ",")), window)
}
