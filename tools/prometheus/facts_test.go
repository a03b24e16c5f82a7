package prometheus

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/template"

	"github.com/kubequorum/terraform-provider-kube/internal/monitoring"
)

// alertsOf returns the rules of an alert.
func alertsOf(t *testing.T, f monitoring.Facts, name string) []monitoring.Rule {
	t.Helper()
	var rules []monitoring.Rule
	for _, group := range monitoring.Groups(f) {
		for _, rule := range group.Rules {
			if rule.Alert == name {
				rules = append(rules, rule)
			}
		}
	}
	if len(rules) == 0 {
		t.Fatalf("there is no alert %s", name)
	}
	return rules
}

// TestRotationArguments: the action of a rotation that stands still names an argument of kube_pki_bundle.
func TestRotationArguments(t *testing.T) {
	for part, argument := range map[string]string{
		"kubernetes": "kubernetes", "etcd": "etcd", "front-proxy": "front_proxy", "service-account": "service_account",
	} {
		for _, rule := range alertsOf(t, facts, "KubeRotationStandsStill") {
			data := template.AlertTemplateData(map[string]string{"part": part}, nil, "", promql.Sample{F: 8 * day})
			got, err := template.NewTemplateExpander(t.Context(), "{{ $labels := .Labels }}"+rule.Annotations["action"],
				rule.Alert, data, 0, nil, nil, nil).Expand()
			if err != nil || !strings.HasPrefix(got, "Raise rotation."+argument+" of kube_pki_bundle") {
				t.Errorf("%s: %q, %v", part, got, err)
			}
		}
	}
}

// TestEarlyRenewal: alerts about certificates that end do not fire before an apply renews them. A CA is renewed by a
// rotation, whatever early_renewal is.
func TestEarlyRenewal(t *testing.T) {
	const hour, warns, pages = 3600, "KubeCertificateExpires", "KubeCertificateExpiresSoon"
	for _, c := range []struct {
		early time.Duration
		file  string
		left  int // seconds at the end of what is looked at
		want  map[string]bool
	}{
		{0, "server.crt", 6 * day, map[string]bool{warns: true}},
		{0, "server.crt", 20 * hour, map[string]bool{warns: true, pages: true}},
		{12 * time.Hour, "server.crt", 20 * hour, nil},
		{12 * time.Hour, "server.crt", 7 * hour, nil},
		{12 * time.Hour, "server.crt", 4 * hour, map[string]bool{warns: true}},
		{12 * time.Hour, "server.crt", hour, map[string]bool{warns: true, pages: true}},
		{12 * time.Hour, "ca.crt", 6 * day, map[string]bool{warns: true}},
		{12 * time.Hour, "ca.crt", 20 * hour, map[string]bool{warns: true, pages: true}},
		{3 * 24 * time.Hour, "server.crt", 2 * day, nil},
		{3 * 24 * time.Hour, "server.crt", 20 * hour, map[string]bool{warns: true}},
		{3 * 24 * time.Hour, "server.crt", 17 * hour, map[string]bool{warns: true, pages: true}},
		{90 * 24 * time.Hour, "server.crt", 8 * day, nil},
		{90 * 24 * time.Hour, "server.crt", 20 * hour, map[string]bool{warns: true, pages: true}},
	} {
		f := facts
		f.EarlyRenewal = c.early
		for _, name := range []string{warns, pages} {
			rules := alertsOf(t, f, name)
			wait, err := time.ParseDuration(rules[0].For)
			if err != nil {
				t.Fatal(err)
			}
			load := member("kube_certificate_not_after_timestamp_seconds",
				fmt.Sprintf(`file="/etc/kubernetes/pki/etcd/%s"`, c.file), fmt.Sprint(c.left+int((wait+time.Hour).Seconds())))
			if anyFires(t, rules, load) != c.want[name] {
				t.Errorf("early_renewal %s, %d s of %s are left: %s fires: %v", c.early, c.left, c.file, name, !c.want[name])
			}
		}
	}
}
