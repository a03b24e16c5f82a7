package acceptance

import (
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	authorization "k8s.io/api/authorization/v1"

	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
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

// TestMetrics: another machine reads the metrics of API server, controller-manager and scheduler with a
// kubeconfig that may read no object, and nobody reads them without one. The change restarts no API server.
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
	expectScraper(t, scraper)
	code, _, err := scraper.call(t.Context(), endpointURL, http.MethodGet, "/api/v1/namespaces", nil, nil)
	if err != nil || code != http.StatusForbidden {
		t.Errorf("the scraper reads namespaces: HTTP %d, %v", code, err)
	}
	expectEtcdListener(t, w)
	apply(t, w, "-destroy")
	expectBare(t, bare, "cp1")
}

// etcdListener lets other machines read etcd's metrics over TLS.
const etcdListener = `
resource "kube_etcd_member" "this" {
  metrics = { address = "0.0.0.0" }
}
` + metricsOverride

const etcdScraper = `
resource "kube_etcd_client_certificate" "scraper" {
  pki  = kube_pki_bundle.this.bundle
  user = "prometheus"
}

output "etcd_scraper" {
  value     = join("", [
    kube_etcd_client_certificate.scraper.client_certificate, kube_etcd_client_certificate.scraper.client_key,
  ])
  sensitive = true
}
`

// expectEtcdListener: etcd serves metrics and no data at a port of its own, to clients with a certificate of its
// authority. An import reads the setting back.
func expectEtcdListener(t *testing.T, w *workspace.Workspace) {
	t.Helper()
	m := shared.lab.Machine("cp1")
	before := processes(t, "cp1")
	override(t, w, etcdListener)
	extend(t, w, scraperStory+etcdScraper)
	expectContains(t, plan(t, w), "+ metrics")
	apply(t, w)
	// While the only member restarts, the replica is out of rotation, and begins anew.
	expectRestarted(t, before, []string{
		"cp1 etcd", "cp1 kube-apiserver", "cp1 kube-controller-manager", "cp1 kube-scheduler",
	})
	url := "https://" + net.JoinHostPort(m.Address.String(), "2382")
	uploadText(t, m, "/root/scraper.pem", outputOf(t, w, "etcd_scraper"))
	defer onMachine(t, m, "rm /root/scraper.pem")
	ask := "cd /etc/kubernetes/pki/etcd; curl --silent --cacert ca.crt --output /dev/null --write-out '%{http_code}' "
	certificate := "--cert /root/scraper.pem "
	for command, want := range map[string]string{
		ask + certificate + url + "/metrics":                                  "200",
		ask + certificate + url + "/version":                                  "404",
		ask + certificate + "-d '{\"key\":\"AA==\"}' " + url + "/v3/kv/range": "404",
		ask + url + "/metrics || true":                                        "000",
	} {
		if got := onMachine(t, m, command); got != want {
			t.Errorf("%s: HTTP %s, want %s", command, got, want)
		}
	}
	to := `kube_etcd_member.this["cp1"]`
	for _, args := range [][]string{
		{"state", "rm", to},
		{"import", "-input=false", "-no-color", to, m.Address.String()},
	} {
		if _, err := w.Run(t.Context(), args...); err != nil {
			t.Fatal(err)
		}
	}
	text, _, err := w.Plan(t.Context())
	if err != nil || strings.Contains(text, "metrics") || strings.Contains(text, "must be replaced") {
		t.Errorf("after an import, the plan changes the listener: %v\n%s", err, text)
	}
	apply(t, w)
}

// scraperURLs are what the group system:monitoring and everybody who logs in may read: the ClusterRoles
// system:monitoring, system:discovery and system:public-info-viewer (plugin/pkg/auth/authorizer/rbac/bootstrappolicy).
var scraperURLs = []string{
	"/metrics", "/metrics/slis", "/livez", "/livez/*", "/readyz", "/readyz/*", "/healthz", "/healthz/*",
	"/flagz", "/statusz",
	"/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", "/version", "/version/",
}

// expectScraper asks the API server what the scraper may do: what the guide Monitoring lists, and nothing else.
func expectScraper(t *testing.T, scraper credentials) {
	t.Helper()
	review := authorization.SelfSubjectRulesReview{
		Spec: authorization.SelfSubjectRulesReviewSpec{Namespace: "kube-system"},
	}
	scraper.must(t, endpointURL, http.MethodPost, "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", review, &review)
	if review.Status.Incomplete {
		t.Errorf("not all rules are known: %s", review.Status.EvaluationError)
	}
	reads := map[string]bool{}
	for _, rule := range review.Status.NonResourceRules {
		for _, url := range rule.NonResourceURLs {
			reads[url] = true
			if !slices.Equal(rule.Verbs, []string{"get"}) || !slices.Contains(scraperURLs, url) {
				t.Errorf("the scraper may %v %s", rule.Verbs, url)
			}
		}
	}
	for _, url := range []string{"/metrics", "/metrics/slis"} {
		if !reads[url] {
			t.Errorf("the scraper may not read %s", url)
		}
	}
	for _, rule := range review.Status.ResourceRules {
		own := slices.Equal(rule.Verbs, []string{"create"}) && !slices.ContainsFunc(rule.Resources, func(name string) bool {
			return !slices.Contains([]string{"selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews"}, name)
		})
		ofNodes := slices.Equal(rule.Verbs, []string{"get"}) && slices.Equal(rule.Resources, []string{"nodes/metrics"})
		if !own && !ofNodes {
			t.Errorf("the scraper may %v %v", rule.Verbs, rule.Resources)
		}
	}
}

// insecure returns the same client, which verifies no server: controller-manager and scheduler
// sign their certificates themselves.
func (c credentials) insecure() credentials {
	trust := c.tls.Clone()
	trust.InsecureSkipVerify = true
	return credentials{tls: trust, token: c.token}
}
