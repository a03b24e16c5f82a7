package acceptance

import (
	"net/http"
	"strings"
	"testing"
)

const metricsOverride = `
resource "kube_control_plane_replica" "this" {
  metrics = { address = "0.0.0.0" }
}
`

const scraperStory = `
resource "kube_kubeconfig" "scraper" {
  pki    = kube_pki_bundle.this.bundle
  server = kube_control_plane_endpoint.this.url
  user   = "prometheus"
  groups = ["system:monitoring"]
}

output "scraper" {
  value     = kube_kubeconfig.scraper.content
  sensitive = true
}
`

// TestMetrics: another machine reads the metrics of all components with a kubeconfig that has no
// other right, and nobody reads them without one. The change restarts no API server.
func TestMetrics(t *testing.T) {
	w := newStory(t, "cp1")
	bare := fingerprints(t, "cp1")
	extend(t, w, scraperStory)
	apply(t, w)
	address := shared.lab.Machine("cp1").Address.String()
	scraper := credentialsOf(t, outputOf(t, w, "scraper"))
	local := []string{"https://" + address + ":10257", "https://" + address + ":10259"}
	for _, url := range local {
		if _, _, err := scraper.insecure().call(t.Context(), url, http.MethodGet, "/metrics", nil, nil); err == nil {
			t.Errorf("%s is open before metrics is set", url)
		}
	}
	before := processes(t, "cp1")
	override(t, w, metricsOverride)
	expectContains(t, plan(t, w), `+ metrics`)
	apply(t, w)
	expectRestarted(t, before, []string{"cp1 kube-controller-manager", "cp1 kube-scheduler"})
	for url, metric := range map[string]string{
		"https://" + address + ":6443": "apiserver_request_total", local[0]: "workqueue_depth",
		local[1]: "scheduler_pending_pods",
	} {
		code, text, err := scraper.insecure().call(t.Context(), url, http.MethodGet, "/metrics", nil, nil)
		if err != nil || code != http.StatusOK || !strings.Contains(text, metric) {
			t.Errorf("%s/metrics: HTTP %d, %v, %d bytes", url, code, err, len(text))
		}
		code, _, err = scraper.with("").insecure().call(t.Context(), url, http.MethodGet, "/metrics", nil, nil)
		if err != nil || code != http.StatusForbidden && code != http.StatusUnauthorized {
			t.Errorf("%s/metrics without a login: HTTP %d, %v", url, code, err)
		}
	}
	code, _, err := scraper.call(t.Context(), endpointURL, http.MethodGet, "/api/v1/namespaces", nil, nil)
	if err != nil || code != http.StatusForbidden {
		t.Errorf("the scraper reads namespaces: HTTP %d, %v", code, err)
	}
	apply(t, w, "-destroy")
	expectBare(t, bare, "cp1")
}

// insecure returns the same client, which verifies no server: controller-manager and scheduler
// sign their certificates themselves.
func (c credentials) insecure() credentials {
	trust := c.tls.Clone()
	trust.InsecureSkipVerify = true
	return credentials{tls: trust, token: c.token}
}
