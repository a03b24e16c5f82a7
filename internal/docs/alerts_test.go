package docs

import (
	"maps"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/monitoring"
	"github.com/kubequorum/terraform-provider-kube/internal/review"
)

// TestAlertNames checks that each alert that a guide names exists, and that the guide on monitoring
// names all of them.
func TestAlertNames(t *testing.T) {
	machine := map[string]netip.Addr{"cp1": netip.MustParseAddr("10.0.0.11")}
	alerts := map[string]bool{}
	for _, group := range monitoring.Groups(monitoring.Facts{
		Cluster: "prod", Members: machine, Replicas: machine, Balancers: machine, NodePort: 9100, Extensive: true,
		PlanMetrics: true,
	}) {
		for _, rule := range group.Rules {
			if rule.Alert != "" {
				alerts[rule.Alert] = false
			}
		}
	}
	name := regexp.MustCompile("`((?:Etcd|Kube|HAProxy)[A-Z][A-Za-z]+)`")
	for _, guide := range []string{"monitoring", "troubleshooting"} {
		count := 0
		for _, match := range name.FindAllStringSubmatch(documents(t)["templates/guides/"+guide+".md"], -1) {
			count++
			if _, known := alerts[match[1]]; !known {
				t.Errorf("the guide %s names %s, which is no alert", guide, match[1])
			}
			alerts[match[1]] = alerts[match[1]] || guide == "monitoring"
		}
		if count == 0 {
			t.Errorf("the guide %s names no alert", guide)
		}
	}
	for alert, named := range alerts {
		if !named {
			t.Errorf("the guide on monitoring does not name %s", alert)
		}
	}
}

// TestPlanMetrics checks that the guide has the metrics that kube-review writes, and that those of alerts are among
// them.
func TestPlanMetrics(t *testing.T) {
	policy, written := review.Policy{}, map[string]bool{}
	text := review.Metrics(review.Report{Plans: []review.NamedPlan{{Name: "a"}}, Policy: &policy}, review.AppliedAll)
	for _, match := range regexp.MustCompile("(?m)^# TYPE (kube_plan_[a-z_]+) ").FindAllStringSubmatch(text, -1) {
		written[match[1]] = true
	}
	name := regexp.MustCompile("kube_plan_[a-z_]+")
	table := map[string]bool{}
	for line := range strings.Lines(documents(t)["templates/guides/drift-review.md"]) {
		if strings.HasPrefix(line, "| `kube_plan_") {
			for _, metric := range name.FindAllString(line, -1) {
				table[metric] = true
			}
		}
	}
	if !maps.Equal(written, table) || len(written) == 0 {
		t.Errorf("kube-review writes %v, and the guide has %v", written, table)
	}
	machine := map[string]netip.Addr{"cp1": netip.MustParseAddr("10.0.0.11")}
	used := 0
	for _, group := range monitoring.Groups(monitoring.Facts{Cluster: "prod", Members: machine, PlanMetrics: true}) {
		for _, rule := range group.Rules {
			for _, metric := range name.FindAllString(rule.Expr, -1) {
				if used++; !written[metric] {
					t.Errorf("%s needs %s, which kube-review does not write", rule.Alert, metric)
				}
			}
		}
	}
	if used == 0 {
		t.Error("no alert needs a metric of plans")
	}
}
