package monitoring

import (
	"net/netip"
	"regexp"
	"testing"
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
