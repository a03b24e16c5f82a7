package monitoring

import (
	"fmt"

	"sigs.k8s.io/yaml"
)

// Credentials are files on Prometheus' machine.
type Credentials struct {
	CA, Cert, Key string // of a kube_kubeconfig of the group system:monitoring
	// of a client of etcd. Without them, etcd is scraped at its listener for metrics, without TLS.
	EtcdCA, EtcdCert, EtcdKey string
}

type scrapeConfig struct {
	JobName       string         `json:"job_name"`
	Scheme        string         `json:"scheme"`
	TLSConfig     *tlsConfig     `json:"tls_config,omitempty"`
	StaticConfigs []staticConfig `json:"static_configs"`
}

type tlsConfig struct {
	CAFile             string `json:"ca_file,omitempty"`
	CertFile           string `json:"cert_file"`
	KeyFile            string `json:"key_file"`
	InsecureSkipVerify bool   `json:"insecure_skip_verify,omitempty"`
}

type staticConfig struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

// ScrapeConfigs returns the scrape_configs of Prometheus for a control plane, as YAML: a list for
// its configuration file, or for a file of scrape_config_files. controller-manager and scheduler
// serve certificates that they sign themselves, so these two cannot be verified.
func ScrapeConfigs(f Facts, c Credentials) (string, error) {
	byJob := map[string]*scrapeConfig{}
	var jobs []*scrapeConfig
	for _, t := range f.targets(c.EtcdCert != "") {
		job := byJob[t.job]
		if job == nil {
			job = &scrapeConfig{
				JobName: t.job, Scheme: "https", TLSConfig: &tlsConfig{CAFile: c.CA, CertFile: c.Cert, KeyFile: c.Key},
			}
			switch {
			case t.job == jobEtcd && c.EtcdCert == "":
				job.Scheme, job.TLSConfig = "http", nil
			case t.job == jobEtcd:
				job.TLSConfig = &tlsConfig{CAFile: c.EtcdCA, CertFile: c.EtcdCert, KeyFile: c.EtcdKey}
			case t.job != jobAPIServer:
				job.TLSConfig.CAFile, job.TLSConfig.InsecureSkipVerify = "", true
			}
			byJob[t.job], jobs = job, append(jobs, job)
		}
		job.StaticConfigs = append(job.StaticConfigs, staticConfig{
			Targets: []string{t.address}, Labels: map[string]string{"cluster": f.Cluster, "machine": t.machine},
		})
	}
	text, err := yaml.Marshal(map[string]any{"scrape_configs": jobs})
	if err != nil {
		return "", fmt.Errorf("render scrape_configs: %w", err)
	}
	return string(text), nil
}
