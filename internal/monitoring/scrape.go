package monitoring

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

// Credentials are what Prometheus scrapes with: files on its machine, or Secrets of the Prometheus
// operator with the keys ca.crt, tls.crt and tls.key.
type Credentials struct {
	CA, Cert, Key string // of a kube_kubeconfig of the group system:monitoring
	// of a client of etcd. Without them, etcd is scraped at its listener for metrics, without TLS.
	EtcdCA, EtcdCert, EtcdKey string
	Secret, EtcdSecret        string // the same, as Secrets
}

var objectName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)

// Validate checks credentials for f: there are files or a Secret, and files are complete and absolute.
func (c Credentials) Validate(f Facts) error {
	files := [3]string{c.CA, c.Cert, c.Key}
	etcdFiles := [3]string{c.EtcdCA, c.EtcdCert, c.EtcdKey}
	switch {
	case c.Secret == "" && !complete(files):
		return errors.New("ca_file, cert_file and key_file are required, or secret")
	case !complete(files) && files != [3]string{}:
		return errors.New("ca_file, cert_file and key_file belong together")
	case !complete(etcdFiles) && etcdFiles != [3]string{}:
		return errors.New("etcd_ca_file, etcd_cert_file and etcd_key_file belong together")
	case complete(etcdFiles) && !complete(files):
		return errors.New("etcd_ca_file, etcd_cert_file and etcd_key_file are used with ca_file, cert_file and key_file only")
	case c.EtcdSecret != "" && c.Secret == "":
		return errors.New("etcd_secret is used with secret only")
	case f.EtcdPort != 0 && (c.Cert != "" && c.EtcdCert == "" || c.Secret != "" && c.EtcdSecret == ""):
		return errors.New("at etcd_metrics_port, clients need a certificate: etcd_ca_file, etcd_cert_file and " +
			"etcd_key_file, or etcd_secret")
	}
	for _, file := range append(files[:], etcdFiles[:]...) {
		if file != "" && !path.IsAbs(file) {
			return fmt.Errorf("%q is no absolute path", file)
		}
	}
	for _, name := range []string{c.Secret, c.EtcdSecret} {
		if name != "" && !objectName.MatchString(name) {
			return fmt.Errorf("%q is no name of a Secret", name)
		}
	}
	return nil
}

func complete(files [3]string) bool {
	return files[0] != "" && files[1] != "" && files[2] != ""
}

// scrapeInterval is short enough for every rate in the rules.
const scrapeInterval = "30s"

// scrapeConfig is one of Prometheus. Its name has the cluster, because Prometheus refuses two with the same name; what
// it scrapes has the label job without it.
type scrapeConfig struct {
	JobName       string         `json:"job_name"`
	Interval      string         `json:"scrape_interval"`
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

// job is the targets that are scraped in the same way.
type job struct {
	name    string
	tls     bool
	verify  bool // of a certificate that a CA has signed
	targets []staticConfig
}

// jobs returns what is scraped. controller-manager and scheduler serve certificates that they sign
// themselves, so these two cannot be verified.
func (f Facts) jobs(etcdAsClient bool) []job {
	var jobs []job
	for _, t := range f.targets(etcdAsClient) {
		if len(jobs) == 0 || jobs[len(jobs)-1].name != t.job {
			jobs = append(jobs, job{
				name: t.job, tls: t.job != jobHAProxy && t.job != jobNode && (t.job != jobEtcd || etcdAsClient),
				verify: t.job == jobEtcd || t.job == jobAPIServer,
			})
		}
		last := &jobs[len(jobs)-1]
		last.targets = append(last.targets, staticConfig{
			Targets: []string{t.address}, Labels: map[string]string{"cluster": f.Cluster, "job": t.job, "machine": t.machine},
		})
	}
	return jobs
}

// ScrapeConfigs returns the scrape_configs of Prometheus for a control plane, as YAML: a list for
// its configuration file, or for a file of scrape_config_files. It is empty without files.
func ScrapeConfigs(f Facts, c Credentials) (string, error) {
	if c.Cert == "" {
		return "", nil
	}
	var configs []scrapeConfig
	for _, j := range f.jobs(c.EtcdCert != "") {
		config := scrapeConfig{
			JobName: f.Cluster + "/" + j.name, Interval: scrapeInterval, Scheme: "http", StaticConfigs: j.targets,
		}
		if j.tls {
			config.Scheme, config.TLSConfig = "https", &tlsConfig{CertFile: c.Cert, KeyFile: c.Key}
			if j.name == jobEtcd {
				config.TLSConfig = &tlsConfig{CAFile: c.EtcdCA, CertFile: c.EtcdCert, KeyFile: c.EtcdKey}
			} else if j.verify {
				config.TLSConfig.CAFile = c.CA
			}
			config.TLSConfig.InsecureSkipVerify = !j.verify
		}
		configs = append(configs, config)
	}
	text, err := yaml.Marshal(map[string]any{"scrape_configs": configs})
	if err != nil {
		return "", fmt.Errorf("render scrape_configs: %w", err)
	}
	return string(text), nil
}

// ScrapeConfigObjects returns the same as objects of the Prometheus operator
// (monitoring.coreos.com/v1alpha1), as a stream of YAML documents. It is empty without a Secret.
func ScrapeConfigObjects(f Facts, c Credentials) (string, error) {
	if c.Secret == "" {
		return "", nil
	}
	var documents []string
	for _, j := range f.jobs(c.EtcdSecret != "") {
		spec := map[string]any{
			"jobName": j.name, "scheme": "HTTP", "staticConfigs": j.targets, "scrapeInterval": scrapeInterval,
		}
		if j.tls {
			secret := c.Secret
			if j.name == jobEtcd {
				secret = c.EtcdSecret
			}
			key := func(name string) map[string]any { return map[string]any{"name": secret, "key": name} }
			settings := map[string]any{"cert": map[string]any{"secret": key("tls.crt")}, "keySecret": key("tls.key")}
			if j.verify {
				settings["ca"] = map[string]any{"secret": key("ca.crt")}
			} else {
				settings["insecureSkipVerify"] = true
			}
			spec["scheme"], spec["tlsConfig"] = "HTTPS", settings
		}
		text, err := yaml.Marshal(map[string]any{
			"apiVersion": "monitoring.coreos.com/v1alpha1", "kind": "ScrapeConfig",
			"metadata": map[string]any{"name": f.objectName(j.name)}, "spec": spec,
		})
		if err != nil {
			return "", fmt.Errorf("render the ScrapeConfig of %s: %w", j.name, err)
		}
		documents = append(documents, string(text))
	}
	return strings.Join(documents, "---\n"), nil
}

// objectName returns a name of an object for this control plane, which the API accepts.
func (f Facts) objectName(suffix string) string {
	name := "control-plane-" + f.Cluster + "-" + suffix
	return strings.ToLower(strings.NewReplacer("_", "-", ".", "-").Replace(strings.TrimSuffix(name, "-")))
}
