package prometheus

import (
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1alpha1"
	"github.com/prometheus/prometheus/config"
	"sigs.k8s.io/yaml"

	"github.com/kubequorum/terraform-provider-kube/internal/monitoring"
)

// TestScrapeConfigs: Prometheus accepts the configuration, and its targets have the labels of the
// alerts.
func TestScrapeConfigs(t *testing.T) {
	for name, c := range map[string]monitoring.Credentials{
		"certificates": {
			CA: "/p/ca.crt", Cert: "/p/c.crt", Key: "/p/c.key", EtcdCA: "/p/etcd.crt", EtcdCert: "/p/e.crt", EtcdKey: "/p/e.key",
		},
		"etcd without": {CA: "/p/ca.crt", Cert: "/p/c.crt", Key: "/p/c.key"},
	} {
		text, err := monitoring.ScrapeConfigs(facts, c)
		if err != nil {
			t.Fatal(err)
		}
		loaded, err := config.Load(text, nil)
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, text)
		}
		jobs, err := loaded.GetScrapeConfigs()
		if err != nil || len(jobs) != 6 {
			t.Errorf("%s: %d jobs, %v", name, len(jobs), err)
		}
		for _, machine := range []string{"cp1", "cp2", "cp3"} {
			if n := strings.Count(text, "machine: "+machine+"\n"); n != 6 {
				t.Errorf("%s: %s is scraped %d times, want 6", name, machine, n)
			}
		}
	}
}

// TestScrapeTwoClusters: one Prometheus scrapes two control planes, and a node_exporter of its own, by one file. The
// labels job are the same.
func TestScrapeTwoClusters(t *testing.T) {
	var all []any
	for _, cluster := range []string{"prod", "test"} {
		f := facts
		f.Cluster = cluster
		text, err := monitoring.ScrapeConfigs(f, monitoring.Credentials{CA: "/p/ca.crt", Cert: "/p/c.crt", Key: "/p/c.key"})
		if err != nil {
			t.Fatal(err)
		}
		var file struct {
			ScrapeConfigs []any `json:"scrape_configs"`
		}
		if err := yaml.Unmarshal([]byte(text), &file); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(text, "job: kube-apiserver\n"); n != 3 {
			t.Errorf("%d targets of %s have the label job", n, cluster)
		}
		all = append(all, file.ScrapeConfigs...)
	}
	all = append(all, map[string]any{"job_name": "node"})
	text, err := yaml.Marshal(map[string]any{"scrape_configs": all})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := config.Load(string(text), nil); err != nil {
		t.Error(err)
	}
}

// TestScrapeConfigObjects: the objects have fields of the Prometheus operator only, and each
// certificate and key comes from the Secret that has it.
func TestScrapeConfigObjects(t *testing.T) {
	for name, c := range map[string]struct {
		credentials monitoring.Credentials
		etcdSecret  string
	}{
		"etcd as a client": {monitoring.Credentials{Secret: "scraper", EtcdSecret: "etcd"}, "etcd"},
		"etcd without":     {monitoring.Credentials{Secret: "scraper"}, ""},
	} {
		text, err := monitoring.ScrapeConfigObjects(facts, c.credentials)
		if err != nil {
			t.Fatal(err)
		}
		documents := strings.Split(text, "---\n")
		if len(documents) != 6 {
			t.Fatalf("%s: %d objects, want 6", name, len(documents))
		}
		for _, document := range documents {
			var object v1alpha1.ScrapeConfig
			if err := yaml.UnmarshalStrict([]byte(document), &object); err != nil {
				t.Fatalf("%s: %v\n%s", name, err, document)
			}
			want := "scraper"
			switch *object.Spec.JobName {
			case "etcd":
				want = c.etcdSecret
			case "haproxy", "node":
				want = ""
			}
			checkScrapeConfig(t, object, want)
		}
	}
}

func checkScrapeConfig(t *testing.T, object v1alpha1.ScrapeConfig, secret string) {
	t.Helper()
	job := *object.Spec.JobName
	if len(object.Spec.StaticConfigs) != 3 || object.Name != "control-plane-prod-"+job {
		t.Errorf("%s: %d targets", object.Name, len(object.Spec.StaticConfigs))
	}
	if secret == "" {
		if object.Spec.TLSConfig != nil || string(*object.Spec.Scheme) != "HTTP" {
			t.Errorf("%s: TLS without a certificate", job)
		}
		return
	}
	settings := object.Spec.TLSConfig
	if string(*object.Spec.Scheme) != "HTTPS" || settings.Cert.Secret.Name != secret || settings.KeySecret.Name != secret {
		t.Errorf("%s: scheme %s, certificate %v, key %v", job, *object.Spec.Scheme, settings.Cert, settings.KeySecret)
	}
	verified := settings.CA.Secret != nil && settings.InsecureSkipVerify == nil
	if want := job == "etcd" || job == "kube-apiserver"; verified != want {
		t.Errorf("%s: its certificate is verified: %t, want %t", job, verified, want)
	}
}

// TestPrometheusRule: the object has fields of the Prometheus operator only.
func TestPrometheusRule(t *testing.T) {
	text, err := monitoring.PrometheusRule(facts)
	if err != nil {
		t.Fatal(err)
	}
	var object monitoringv1.PrometheusRule
	if err := yaml.UnmarshalStrict([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	if len(object.Spec.Groups) != len(monitoring.Groups(facts)) {
		t.Errorf("%d groups, want %d", len(object.Spec.Groups), len(monitoring.Groups(facts)))
	}
}
