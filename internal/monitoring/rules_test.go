package monitoring

import (
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestActions: each alert says which resource it is about, and the apply or command that repairs it or finds the
// cause.
func TestActions(t *testing.T) {
	machines := map[string]netip.Addr{"cp1": netip.MustParseAddr("10.0.0.1")}
	resource := regexp.MustCompile(`\bkube_[a-z_]+\b|\$labels\.resource`)
	command := regexp.MustCompile(`\b(terraform (plan|apply)|journalctl|kubectl|systemctl|iostat|top|ping|chronyc)\b`)
	seen := 0
	for _, group := range Groups(Facts{
		Cluster: "a", Members: machines, Replicas: machines, Balancers: machines, NodePort: 9100, Extensive: true,
		PlanMetrics: true,
	}) {
		for _, rule := range group.Rules {
			if rule.Alert == "" {
				continue
			}
			seen++
			action := rule.Annotations["action"]
			if !resource.MatchString(action) {
				t.Errorf("%s names no resource: %s", rule.Alert, action)
			}
			if !command.MatchString(action) {
				t.Errorf("%s names neither an apply nor a command: %s", rule.Alert, action)
			}
		}
	}
	if seen == 0 {
		t.Error("there are no alerts")
	}
}

// TestWindows: every range in a query has at least two scrapes.
func TestWindows(t *testing.T) {
	interval, err := time.ParseDuration(scrapeInterval)
	if err != nil {
		t.Fatal(err)
	}
	machines := map[string]netip.Addr{"cp1": netip.MustParseAddr("10.0.0.1")}
	window := regexp.MustCompile(`\[([0-9]+[smh])[\]:]`)
	seen := 0
	for _, group := range Groups(Facts{
		Cluster: "a", Members: machines, Replicas: machines, Balancers: machines, NodePort: 9100, Extensive: true,
	}) {
		for _, rule := range group.Rules {
			for _, match := range window.FindAllStringSubmatch(rule.Expr, -1) {
				seen++
				if lasts, err := time.ParseDuration(match[1]); err != nil || lasts < 2*interval {
					t.Errorf("%s%s: %s has too few scrapes", rule.Alert, rule.Record, match[0])
				}
			}
		}
	}
	if seen == 0 {
		t.Error("no query has a range")
	}
}

// TestControllersLocal: what cannot be scraped has neither targets nor alerts.
func TestControllersLocal(t *testing.T) {
	f := Facts{
		Cluster: "a", Replicas: map[string]netip.Addr{"cp1": netip.MustParseAddr("10.0.0.1")}, ControllersLocal: true,
	}
	for _, target := range f.targets(true) {
		if target.job != jobAPIServer {
			t.Errorf("%s is scraped", target.job)
		}
	}
	for _, group := range Groups(f) {
		for _, rule := range group.Rules {
			if strings.Contains(rule.Expr, jobControllerManager) || strings.Contains(rule.Expr, jobScheduler) {
				t.Errorf("%s is about %s", rule.Alert, rule.Expr)
			}
		}
	}
}
