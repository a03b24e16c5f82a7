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

// waitFactor is how much shorter than by default alerts wait in this test.
const waitFactor = 0.2

// loadAlerts say that machines are slow, which those of a lab on a busy computer are. They are not counted as
// false alarms here; their rules have unit tests.
var loadAlerts = []string{
	"EtcdGRPCRequestsSlow", "EtcdHighCommitDurations", "EtcdHighFsyncDurations", "EtcdVeryHighFsyncDurations",
	"EtcdMemberCommunicationSlow", "EtcdHighNumberOfLeaderChanges", "KubeAPIEtcdSlow", "KubeAPILatencyHigh",
	"KubeAPIErrorBudgetBurn", "KubeWorkQueueSlow",
}

// changedScheduler restarts one scheduler after the other.
const changedScheduler = `
module "control_plane" {
  kubernetes = {
    version    = "1.36.3"
    metrics    = { address = "0.0.0.0", textfile_directory = var.textfile_directory }
    extra_args = { scheduler = { v = "1" } }
  }
}
`

// TestMonitoring follows the guide: Debian's Prometheus scrapes a control plane with the files that
// the example makes. No alert fires while it is healthy and an apply changes it. What is broken on
// purpose fires its alert, and an apply ends it.
func TestMonitoring(t *testing.T) {
	names := []string{"cp1", "cp2", "cp3"}
	w := storyIn(t, append(names, "cp4"), checkout(t), "examples/monitoring")
	for _, name := range names {
		installExporter(t, shared.lab.Machine(name))
	}
	bare := fingerprints(t, names...)
	variables := map[string]any{"machines": addresses(names), "wait_factor": waitFactor}
	if err := w.WriteJSON("terraform.tfvars.json", variables); err != nil {
		t.Fatal(err)
	}
	apply(t, w)
	newUser(t, w).typeCommands(t, documentedScript(t, "monitoring", 0))
	begun := time.Now()
	p := startPrometheus(t, shared.lab.Machine("cp4"), filepath.Join(w.Dir, "prometheus"))
	targets := 6 * len(names)
	p.expectTargets(t, targets)

	// Healthy, while a snapshot is saved and an apply restarts schedulers.
	onMachine(t, shared.lab.Machine("cp1"), "systemctl start etcd-snapshot")
	override(t, w, changedScheduler)
	apply(t, w)
	p.expectSilence(t, 2*time.Minute)
	expectShown(t, p.show(t, filepath.Join(w.Dir, "grafana"), begun))

	m := breakAll(t, w)
	for _, want := range m.alerts {
		p.expectAlert(t, want, m.since.Add(8*time.Minute))
		t.Logf("%s fires %s after its cause", want, time.Since(m.since).Round(time.Second))
	}
	m.repair(t)
	apply(t, w)
	p.expectTargets(t, targets)
	onMachine(t, shared.lab.Machine("cp3"), "systemctl start etcd-snapshot") // the next one on its schedule
	p.expectEnd(t, m.alerts...)

	// Two of three members: the quorum is lost.
	stopped := time.Now()
	for _, name := range []string{"cp2", "cp3"} {
		onMachine(t, shared.lab.Machine(name), "systemctl stop etcd")
	}
	lost := []string{"EtcdNoLeader cp1", "EtcdInsufficientMembers ", "HAProxyNoServers cp1"}
	for _, want := range lost {
		p.expectAlert(t, want, stopped.Add(5*time.Minute))
		t.Logf("%s fires %s after the stop", want, time.Since(stopped).Round(time.Second))
	}
	for _, name := range []string{"cp2", "cp3"} {
		onMachine(t, shared.lab.Machine(name), "systemctl start etcd")
	}
	p.expectEnd(t, lost...)
	apply(t, w, "-destroy")
	expectBare(t, bare, names...)
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

// installExporter installs Debian's node_exporter.
func installExporter(t *testing.T, m *lab.Machine) {
	t.Helper()
	rebuildAfter(t, m)
	onMachine(t, m, "DEBIAN_FRONTEND=noninteractive apt-get install -y -q prometheus-node-exporter >/tmp/apt.log 2>&1 || "+
		"{ tail /tmp/apt.log; exit 1; }; systemctl is-active prometheus-node-exporter")
}

// broken is what was made wrong on purpose.
type broken struct {
	since  time.Time
	alerts []string
	vip    string
}

// breakAll makes many alerts true at once. What an apply does not repair, repair does.
func breakAll(t *testing.T, w *workspace.Workspace) broken {
	t.Helper()
	b := broken{since: time.Now(), vip: w.VIP()}
	on := func(name, commands string, alerts ...string) {
		onMachine(t, shared.lab.Machine(name), commands)
		b.alerts = append(b.alerts, alerts...)
	}
	on("cp2", "systemctl stop kube-scheduler kube-controller-manager", "KubeControllerManagerDown cp2",
		"KubeSchedulerDown cp2")
	// A server that is down, a member, and a snapshot that its machine cannot save.
	on("cp3", "systemctl stop kube-apiserver etcd; systemctl start etcd-snapshot || true", "EtcdMemberDown cp3",
		"KubeAPIServerDown cp3", "HAProxyServerDown cp1", "EtcdSnapshotFailed cp3")
	// The certificate of the API server is renewed without its key, so it goes on with the old one.
	const request = "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=test -keyout /dev/null 2>/dev/null "
	on("cp1", "cd /etc/kubernetes/pki && "+request+"-days 900 -out new && cat new >apiserver.crt && rm new",
		"KubeCertificateNotServed cp1")
	on("cp2", "cd /etc/kubernetes/pki && "+request+"-days 1 -out new && cat new >apiserver-kubelet-client.crt && rm new",
		"KubeCertificateExpires cp2", "KubeCertificateExpiresSoon cp2")
	on("cp2", "systemctl stop etcd-facts.timer; rm /var/lib/prometheus/node-exporter/kube_etcd_member.prom",
		"KubeFactsMissing cp2")
	for _, name := range []string{"cp1", "cp2", "cp3"} {
		on(name, "find /etc/systemd/system/etcd-snapshot.timer /var/lib/etcd-archive -name '*.db' -o -name '*.timer' | "+
			"xargs touch -d '5 hours ago'")
		if !strings.Contains(onMachine(t, shared.lab.Machine(name), "ip -o address show"), " "+b.vip+"/") {
			on(name, "ip address add "+b.vip+"/32 dev lo")
		}
	}
	b.alerts = append(b.alerts, "EtcdSnapshotTooOld ", "KubeVirtualIPOnTwoMachines ")
	return b
}

// repair undoes what no apply repairs.
func (b broken) repair(t *testing.T) {
	t.Helper()
	for _, name := range []string{"cp1", "cp2", "cp3"} {
		onMachine(t, shared.lab.Machine(name), "ip address delete "+b.vip+"/32 dev lo 2>/dev/null || true; "+
			"touch /etc/systemd/system/etcd-snapshot.timer")
	}
}

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
		onMachine(t, m, fmt.Sprintf("mkdir -p /etc/prometheus/kube; echo %s | base64 -d >/etc/prometheus/%s",
			base64.StdEncoding.EncodeToString(content), name))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// The times between scrapes are shorter than Prometheus' default, as the waits are.
	onMachine(t, m, "sed -i '1i global: {scrape_interval: 15s, evaluation_interval: 15s}' "+
		"/etc/prometheus/prometheus.yml; chown -R prometheus: /etc/prometheus/kube; "+
		"promtool check config /etc/prometheus/prometheus.yml; "+
		"systemctl restart prometheus")
	return prometheus{m}
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

// expectAlert waits until an alert fires.
func (p prometheus) expectAlert(t *testing.T, want string, end time.Time) {
	t.Helper()
	for ; ; time.Sleep(time.Second) {
		firing := p.alerts(t)
		if slices.Contains(firing, want) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s does not fire; %q do", want, firing)
		}
	}
}

// expectEnd waits until none of the alerts fires, or no alert at all without names.
func (p prometheus) expectEnd(t *testing.T, names ...string) {
	t.Helper()
	for end := time.Now().Add(15 * time.Minute); ; time.Sleep(time.Second) {
		still := slices.DeleteFunc(p.alerts(t), func(name string) bool {
			return len(names) > 0 && !slices.Contains(names, name)
		})
		if len(still) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%q still fire", still)
		}
	}
}
