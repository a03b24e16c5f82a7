package acceptance

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/monitoring"
)

// allMetrics has the durations of requests to etcd, which an alert needs, the metrics of all other
// components, and facts. It has the versions of etcd and of Kubernetes.
const allMetrics = `
resource "kube_etcd_member" "this" {
  version    = %q
  extra_args = { metrics = "extensive" }
  snapshots  = { schedule = "hourly", upload = "true" }
  metrics    = { textfile_directory = "/srv/facts" }
}

resource "kube_control_plane_replica" "this" {
  version = %q
  metrics = { address = "0.0.0.0", textfile_directory = "/srv/facts" }
}

resource "kube_control_plane_endpoint" "this" {
  haproxy = {
    hosts   = var.machines
    metrics = { address = "0.0.0.0", textfile_directory = "/srv/facts" }
  }
}
`

// drilled is a restore drill, which has facts whatever comes of it. It fails.
const drilled = `
resource "kube_etcd_restore_drill" "this" {
  pki        = kube_pki_bundle.this.bundle
  peers      = var.machines
  member     = "cp1"
  fetch      = "exit 1"
  triggers   = { run = "1" }
  depends_on = [kube_control_plane_replica.this]
}
`

// TestMetricNames: every metric that an alert or a dashboard queries is served by the component that it is queried
// of, in every minor release of Kubernetes and of etcd that the tests run. A metric that a release renames would make
// an alert silent.
func TestMetricNames(t *testing.T) {
	for _, c := range []struct{ kubernetes, etcd string }{
		{"kubernetes", "etcd"},
		{"kubernetes", "etcd-3.7"},
		{"kubernetes-1.35", "etcd"},
		{"kubernetes-1.34", "etcd-3.5"},
		{"kubernetes-1.33", "etcd-3.5"},
		{"kubernetes-1.32", "etcd-3.5"},
	} {
		t.Run(c.kubernetes+" "+c.etcd, func(t *testing.T) {
			testMetricNames(t, fmt.Sprintf(allMetrics, release(t, c.etcd), release(t, c.kubernetes)))
		})
	}
}

func testMetricNames(t *testing.T, config string) {
	t.Helper()
	names := []string{"cp1", "cp2"}
	w := newStory(t, names...)
	bare := fingerprints(t, names...)
	for _, name := range names {
		onMachine(t, shared.lab.Machine(name), "mkdir /srv/facts")
	}
	override(t, w, config)
	apply(t, w)
	drill := filepath.Join(w.Dir, "drill.tf")
	write(t, drill, drilled)
	refused(t, w)
	write(t, drill, "")
	admin := credentialsOf(t, outputOf(t, w, "kubeconfig"))
	provokeMetrics(t, admin)
	machines := map[string]netip.Addr{}
	for _, name := range names {
		machines[name] = shared.lab.Machine(name).Address
	}
	needed := monitoring.Metrics(monitoring.Facts{
		Cluster: "a", Members: machines, Replicas: machines, Balancers: machines, NodePort: 9100, Extensive: true,
	})
	missing := needed
	for end := time.Now().Add(5 * time.Minute); len(missing) > 0; time.Sleep(time.Second) {
		served := map[monitoring.Metric]bool{}
		for _, name := range names {
			for job, text := range scraped(t, admin, name) {
				addServed(served, job, text)
			}
		}
		missing = slices.DeleteFunc(slices.Clone(needed), func(m monitoring.Metric) bool { return served[m] })
		if len(missing) > 0 && time.Now().After(end) {
			t.Fatalf("nothing serves %q", missing)
		}
	}
	t.Logf("all of %d metrics are served", len(needed))
	apply(t, w, "-destroy")
	for _, name := range names {
		// rmdir fails if any facts are left.
		onMachine(t, shared.lab.Machine(name), "rmdir /srv/facts")
	}
	expectBare(t, bare, names...)
}

// provokeMetrics makes happen what some metrics wait for before they are served: a Pod to schedule,
// a request that is cut off, an aggregated API, a node, and webhooks.
func provokeMetrics(t *testing.T, admin credentials) {
	t.Helper()
	pod := map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "unschedulable"},
		"spec": map[string]any{
			"automountServiceAccountToken": false,
			"containers":                   []any{map[string]any{"name": "none", "image": "none"}},
		},
	}
	// A Pod is refused until its namespace has a service account.
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Second) {
		code, text, err := admin.call(t.Context(), endpointURL, http.MethodPost, "/api/v1/namespaces/default/pods", pod, nil)
		if code == http.StatusCreated {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("create a Pod: HTTP %d, %v: %s", code, err, text)
		}
	}
	admin.must(t, endpointURL, http.MethodPost, apiServices, map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
		"metadata": map[string]any{"name": aggregated},
		"spec": map[string]any{
			"group": "none.example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 100,
		},
	}, nil)
	if err := admin.serveElsewhere(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	admin.must(t, endpointURL, http.MethodPost, "/api/v1/nodes", map[string]any{
		"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": "none"},
	}, nil)
	provokeWebhooks(t, admin, "cp1", "cp2")
	for _, server := range servers("cp1", "cp2") {
		code, text, err := admin.call(t.Context(), server, http.MethodGet, "/api/v1/configmaps?timeout=1ns", nil, nil)
		if err != nil || code != http.StatusGatewayTimeout {
			t.Fatalf("a request without time: HTTP %d, %v: %s", code, err, text)
		}
	}
}

// An aggregated API, and where API servers keep them.
const (
	aggregated  = "v1.none.example.com"
	apiServices = "/apis/apiregistration.k8s.io/v1/apiservices"
)

// apiService is what these tests use of an APIService.
type apiService struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Metadata   map[string]any `json:"metadata"`
	Spec       map[string]any `json:"spec"`
	Status     struct {
		Conditions []struct{ Type, Status string } `json:"conditions"`
	} `json:"status,omitzero"`
}

// available reports whether the API servers say that the API can be used.
func (s apiService) available() bool {
	for _, c := range s.Status.Conditions {
		if c.Type == "Available" {
			return c.Status == "True"
		}
	}
	return false
}

// serveElsewhere lets the aggregated API be served by a Service, which does not exist, once it is available, or by the
// API servers themselves. They count how often it becomes unavailable.
func (c credentials) serveElsewhere(ctx context.Context, elsewhere bool) error {
	late := fmt.Errorf("available is not %t within 5 minutes", elsewhere) // controllers are slow while their queue is deep
	for end := time.Now().Add(5 * time.Minute); ; time.Sleep(time.Second) {
		var object apiService
		code, text, err := c.call(ctx, endpointURL, http.MethodGet, apiServices+"/"+aggregated, nil, &object)
		if err == nil && code == http.StatusOK && object.available() == elsewhere {
			delete(object.Spec, "service")
			delete(object.Spec, "insecureSkipTLSVerify")
			if elsewhere {
				object.Spec["service"] = map[string]any{"name": "none", "namespace": "default"}
				object.Spec["insecureSkipTLSVerify"] = true
			}
			object.Status.Conditions = nil
			code, text, err = c.call(ctx, endpointURL, http.MethodPut, apiServices+"/"+aggregated, object, nil)
			if err == nil && code == http.StatusOK {
				return nil
			}
		}
		if ctx.Err() != nil || time.Now().After(end) {
			return fmt.Errorf("change the aggregated API: HTTP %d: %s: %w", code, text, cmp.Or(err, late))
		}
	}
}

// scraped returns the metrics of all components on a machine, and its facts, by job.
func scraped(t *testing.T, admin credentials, name string) map[string]string {
	t.Helper()
	all := map[string]string{
		"etcd": onMachine(t, shared.lab.Machine(name), "cd /etc/kubernetes/pki && curl -sS --fail "+
			"--cacert etcd/ca.crt --cert apiserver-etcd-client.crt --key apiserver-etcd-client.key "+
			"https://127.0.0.1:2379/metrics"),
		"haproxy": onMachine(t, shared.lab.Machine(name), "curl -sS --fail http://127.0.0.1:8405/metrics"),
		// A fact without a value at this time, such as since when a member is a learner, is described.
		"node": onMachine(t, shared.lab.Machine(name),
			`sed -n 's/^# TYPE \(kube_[a-z_]*\) .*/\1 0/p' /srv/facts/*.prom || true`),
	}
	for job, port := range map[string]string{
		"kube-apiserver": "6443", "kube-controller-manager": "10257", "kube-scheduler": "10259",
	} {
		code, text, err := admin.insecure().call(t.Context(), "https://"+address(name)+":"+port, http.MethodGet,
			"/metrics", nil, nil)
		if err != nil || code != http.StatusOK {
			t.Fatalf("metrics of port %s on %s: HTTP %d, %v", port, name, code, err)
		}
		all[job] = text
	}
	return all
}

// addServed adds the series of a job in the text format of Prometheus.
func addServed(served map[monitoring.Metric]bool, job, text string) {
	for line := range strings.Lines(text) {
		if end := strings.IndexAny(line, "{ "); end > 0 && line[0] != '#' {
			served[monitoring.Metric{Job: job, Name: line[:end]}] = true
		}
	}
}
