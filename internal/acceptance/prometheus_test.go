package acceptance

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// prometheus is Debian's Prometheus on a machine of the lab.
type prometheus struct {
	machine *lab.Machine
}

// startPrometheus installs Prometheus, with the files in a directory as its configuration. The
// machine is made anew at the end of the test.
func startPrometheus(t *testing.T, m *lab.Machine, dir string) prometheus {
	t.Helper()
	rebuildAfter(t, m)
	onMachine(t, m, "DEBIAN_FRONTEND=noninteractive apt-get install -y -q prometheus >/tmp/apt.log 2>&1 || "+
		"{ tail /tmp/apt.log; exit 1; }")
	p := prometheus{m}
	p.configure(t, dir)
	return p
}

// scraping starts Prometheus with what the guide writes to files.
func scraping(t *testing.T, w *workspace.Workspace) prometheus {
	t.Helper()
	return startPrometheus(t, shared.lab.Machine("cp4"), prometheusFiles(t, w))
}

// prometheusFiles returns a directory with what the guide writes to files.
func prometheusFiles(t *testing.T, w *workspace.Workspace) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "kube"), 0o700); err != nil {
		t.Fatal(err)
	}
	for file, output := range map[string]string{
		"kube/ca.crt": "ca_certificate", "kube/client.crt": "client_certificate", "kube/client.key": "client_key",
		"kube/etcd-ca.crt": "etcd_ca_certificate", "kube/etcd-client.crt": "etcd_client_certificate",
		"kube/etcd-client.key": "etcd_client_key", "control-plane.yml": "alert_rules",
	} {
		write(t, filepath.Join(dir, file), outputOf(t, w, output))
	}
	write(t, filepath.Join(dir, "prometheus.yml"),
		"rule_files: [/etc/prometheus/control-plane.yml]\n"+outputOf(t, w, "scrape_configs"))
	return dir
}

// configure writes the files in a directory to the machine, and Prometheus reads them if it runs.
func (p prometheus) configure(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		onMachine(t, p.machine, fmt.Sprintf("mkdir -p /etc/prometheus/kube; echo %s | base64 -d >/etc/prometheus/%s",
			base64.StdEncoding.EncodeToString(content), name))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// The time between evaluations is shorter than Prometheus' default, as the waits are.
	onMachine(t, p.machine, "sed -i '1i global: {evaluation_interval: 15s}' "+
		"/etc/prometheus/prometheus.yml; chown -R prometheus: /etc/prometheus/kube; "+
		"promtool check config /etc/prometheus/prometheus.yml; systemctl reload-or-restart prometheus")
}

// get decodes the data of a request to the API of Prometheus. It is false while nobody answers.
func (p prometheus) get(t *testing.T, path string, data any) bool {
	t.Helper()
	text := onMachine(t, p.machine, "curl -sS --max-time 10 'http://127.0.0.1:9090/api/v1/"+path+
		"' 2>/dev/null || true")
	if !strings.HasPrefix(text, "{") {
		return false
	}
	if err := json.Unmarshal([]byte(text), &struct{ Data any }{data}); err != nil {
		t.Fatal(err)
	}
	return true
}

// expectTargets waits until Prometheus scrapes so many targets without an error.
func (p prometheus) expectTargets(t *testing.T, want int) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(time.Second) {
		var data struct {
			ActiveTargets []struct {
				ScrapeURL string
				Health    string
				LastError string
			}
		}
		up, problems := 0, []string{}
		if p.get(t, "targets", &data) {
			for _, target := range data.ActiveTargets {
				if target.Health == "up" {
					up++
				} else {
					problems = append(problems, target.ScrapeURL+": "+target.LastError)
				}
			}
		}
		if up == want && len(problems) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("Prometheus scrapes %d targets, want %d: %q", up, want, problems)
		}
	}
}

// alerts returns the alerts that fire, as their names and machines.
func (p prometheus) alerts(t *testing.T) []string {
	t.Helper()
	var data struct {
		Alerts []struct {
			State  string
			Labels map[string]string
		}
	}
	for !p.get(t, "alerts", &data) {
		time.Sleep(time.Second)
	}
	var firing []string
	for _, a := range data.Alerts {
		if a.State == "firing" {
			firing = append(firing, a.Labels["alertname"]+" "+a.Labels["machine"])
		}
	}
	return firing
}

// expectSilence fails if an alert fires within a time, except for those about slow machines.
func (p prometheus) expectSilence(t *testing.T, lasts time.Duration) {
	t.Helper()
	seen := map[string]bool{}
	for end := time.Now().Add(lasts); time.Now().Before(end); time.Sleep(5 * time.Second) {
		for _, firing := range p.alerts(t) {
			name, _, _ := strings.Cut(firing, " ")
			if !seen[firing] && !slices.Contains(loadAlerts, name) {
				t.Errorf("%s fires while everything is healthy", firing)
			} else if !seen[firing] {
				t.Logf("%s fires on this computer", firing)
			}
			seen[firing] = true
		}
	}
}

// expectAlerts waits until each of the alerts has fired, and logs how long after its cause it did. An alert is
// named with its machine, or without any.
func (p prometheus) expectAlerts(t *testing.T, cause time.Time, within time.Duration, names ...string) {
	t.Helper()
	missing := slices.Clone(names)
	for ; ; time.Sleep(time.Second) {
		firing := p.alerts(t)
		missing = slices.DeleteFunc(missing, func(want string) bool {
			fires := slices.ContainsFunc(firing, func(name string) bool { return is(name, want) })
			if fires {
				t.Logf("%s fires %s after its cause", want, time.Since(cause).Round(time.Second))
			}
			return fires
		})
		if len(missing) == 0 {
			return
		}
		if time.Since(cause) > within {
			t.Fatalf("%q do not fire; %q do", missing, firing)
		}
	}
}

// is reports whether an alert that fires is the wanted one.
func is(firing, want string) bool {
	name, _, _ := strings.Cut(firing, " ")
	return firing == want || name == want
}

// expectEnd waits until none of the alerts fires, or no alert at all without names.
func (p prometheus) expectEnd(t *testing.T, names ...string) {
	t.Helper()
	if still := p.awaitEnd(t, names...); len(still) > 0 {
		t.Fatalf("%q still fire", still)
	}
}

// expectSlownessEnds is expectEnd for alerts about slowness, which go on while processes wait for this computer.
func (p prometheus) expectSlownessEnds(t *testing.T, load *pressures, names ...string) {
	t.Helper()
	still := p.awaitEnd(t, names...)
	switch busy := load.before(time.Now()); {
	case len(still) == 0:
	case busy.high():
		t.Logf("%q still fire, on a computer with the pressure %v", still, busy)
	default:
		t.Fatalf("%q still fire", still)
	}
}

// awaitEnd waits until none of the alerts fires, and returns those that still do after 15 minutes.
func (p prometheus) awaitEnd(t *testing.T, names ...string) (still []string) {
	t.Helper()
	for end := time.Now().Add(15 * time.Minute); ; time.Sleep(time.Second) {
		still = slices.DeleteFunc(p.alerts(t), func(name string) bool {
			return len(names) > 0 && !slices.ContainsFunc(names, func(want string) bool { return is(name, want) })
		})
		if len(still) == 0 || time.Now().After(end) {
			return still
		}
	}
}

// rebuildAfter makes a machine anew at the end of the test.
func rebuildAfter(t *testing.T, m *lab.Machine) {
	t.Helper()
	t.Cleanup(func() {
		if err := m.Rebuild(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
}

// installExporter installs Debian's node_exporter, and other packages.
func installExporter(t *testing.T, m *lab.Machine, packages ...string) {
	t.Helper()
	rebuildAfter(t, m)
	onMachine(t, m, "DEBIAN_FRONTEND=noninteractive apt-get install -y -q prometheus-node-exporter "+
		strings.Join(packages, " ")+" >/tmp/apt.log 2>&1 || { tail /tmp/apt.log; exit 1; }; "+
		"systemctl is-active prometheus-node-exporter")
}
