package monitoring

import (
	"fmt"
	"maps"
	"math"
	"time"

	"sigs.k8s.io/yaml"
)

// Rule is an alerting rule, or a recording rule: one of Alert and Record is its name.
type Rule struct {
	Alert       string            `json:"alert,omitempty"`
	Record      string            `json:"record,omitempty"`
	Expr        string            `json:"expr"`
	For         string            `json:"for,omitempty"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Group is a group of rules.
type Group struct {
	Name  string `json:"name"`
	Rules []Rule `json:"rules"`
}

// The severities.
const (
	warning  = "warning"
	critical = "critical"
)

// Groups returns the rules of a control plane.
func Groups(f Facts) []Group {
	var groups []Group
	if len(f.Members) > 0 {
		groups = append(groups, Group{f.Cluster + ".etcd", f.complete(f.etcdAlerts())})
	}
	if len(f.Replicas) > 0 {
		groups = append(groups,
			Group{f.Cluster + ".kube-apiserver", f.complete(f.apiAlerts())},
			Group{f.Cluster + ".kube-apiserver-burnrate", f.complete(f.burnRateRules())})
	}
	if len(f.Replicas) > 0 && !f.ControllersLocal {
		groups = append(groups, Group{f.Cluster + ".kube-controllers", f.complete(f.controllerAlerts())})
	}
	if len(f.Balancers) > 0 {
		groups = append(groups, Group{f.Cluster + ".haproxy", f.complete(f.balancerAlerts())})
	}
	if f.NodePort != 0 {
		groups = append(groups, Group{f.Cluster + ".facts", f.complete(f.factAlerts())})
	}
	if f.PlanMetrics {
		groups = append(groups, Group{f.Cluster + ".plans", f.complete(f.planAlerts())})
	}
	return groups
}

// wait returns how long an alert waits with the factor of the user.
func (f Facts) wait(lasts string) string {
	d, err := time.ParseDuration(lasts)
	if err != nil || f.WaitFactor == 0 {
		return lasts
	}
	return fmt.Sprintf("%ds", int(math.Ceil(d.Seconds()*f.WaitFactor)))
}

// complete adds the cluster, which a rule that aggregates loses, and the user's labels of alerts.
func (f Facts) complete(rules []Rule) []Rule {
	for i := range rules {
		if rules[i].Alert != "" {
			maps.Copy(rules[i].Labels, f.Labels)
			rules[i].For = f.wait(rules[i].For)
		}
		rules[i].Labels["cluster"] = f.Cluster
	}
	return rules
}

// RuleFile returns the rules as a rule file of Prometheus.
func RuleFile(f Facts) (string, error) {
	text, err := yaml.Marshal(map[string]any{"groups": Groups(f)})
	if err != nil {
		return "", fmt.Errorf("render the rules: %w", err)
	}
	return string(text), nil
}

// PrometheusRule returns the rules as an object of the Prometheus operator, as YAML.
func PrometheusRule(f Facts) (string, error) {
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule",
		"metadata": map[string]any{"name": f.objectName("")}, "spec": map[string]any{"groups": Groups(f)},
	})
	if err != nil {
		return "", fmt.Errorf("render the PrometheusRule: %w", err)
	}
	return string(text), nil
}

// alert returns a rule. The summary says what is wrong, and the action which resource repairs it.
func alert(name, severity, lasts, expr, summary, action string) Rule {
	return Rule{
		Alert: name, Expr: expr, For: lasts, Labels: map[string]string{"severity": severity},
		Annotations: map[string]string{"summary": summary, "action": action},
	}
}

// lately returns the last values within five minutes of a selected metric. An alert that waits for an hour or longer
// uses it: otherwise one scrape that fails lets it begin again.
func lately(selected string) string { return "last_over_time(" + selected + "[5m])" }

// of returns the selector of a job's series, with more matchers ("" for none).
func (f Facts) of(job, more string) string {
	if more != "" {
		more = "," + more
	}
	return fmt.Sprintf(`{job="%s",cluster="%s"%s}`, job, f.Cluster, more)
}

// down returns an alert for each known target of a job. A rule for the job alone would not notice a
// target that the scrape configuration has lost.
func (f Facts) down(job, name, severity, resource string) []Rule {
	var all []Rule
	for _, t := range f.targets(true) {
		if t.job != job {
			continue
		}
		a := alert(name, severity, "5m", fmt.Sprintf(`absent(up%s == 1)`, f.of(job, `machine="`+t.machine+`"`)),
			fmt.Sprintf("%s on %s cannot be scraped.", job, t.machine),
			fmt.Sprintf(`Run terraform plan: the drift of %s "%s" says what is wrong, and an apply repairs it. If it says `+
				`nothing, Prometheus does not reach the port.`, resource, t.machine))
		a.Labels["machine"], a.Labels["job"] = t.machine, job
		all = append(all, a)
	}
	return all
}
