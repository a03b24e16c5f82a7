package docs

import (
	"net/netip"
	"regexp"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/monitoring"
)

// TestAlertNames checks that each alert that a guide names exists, and that the guide on monitoring
// names all of them.
func TestAlertNames(t *testing.T) {
	machine := map[string]netip.Addr{"cp1": netip.MustParseAddr("10.0.0.11")}
	alerts := map[string]bool{}
	for _, group := range monitoring.Groups(monitoring.Facts{
		Cluster: "prod", Members: machine, Replicas: machine, Balancers: machine, NodePort: 9100, Extensive: true,
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
