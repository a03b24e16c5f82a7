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
)

// TestMonitoring follows the guide: Debian's Prometheus scrapes a control plane with the files that
// the example makes. No alert fires while it is healthy. What is stopped fires its alert within the
// time that the alert waits, and an apply ends it.
func TestMonitoring(t *testing.T) {
	names := []string{"cp1", "cp2", "cp3"}
	w := storyIn(t, append(names, "cp4"), checkout(t), "examples/monitoring")
	bare := fingerprints(t, names...)
	if err := w.WriteJSON("terraform.tfvars.json", map[string]any{"machines": addresses(names)}); err != nil {
		t.Fatal(err)
	}
	apply(t, w)
	newUser(t, w).typeCommands(t, documentedScript(t, "monitoring", 0))
	p := startPrometheus(t, shared.lab.Machine("cp4"), filepath.Join(w.Dir, "prometheus"))
	p.expectTargets(t, 12)
	if firing := p.alerts(t); len(firing) > 0 {
		t.Errorf("alerts of a healthy control plane: %v", firing)
	}

	// A learner, a limit or a quota is not made wrong here: these alerts have unit tests.
	stopped := time.Now()
	onMachine(t, shared.lab.Machine("cp2"), "systemctl stop kube-scheduler kube-controller-manager")
	onMachine(t, shared.lab.Machine("cp3"), "systemctl stop kube-apiserver etcd")
	for _, want := range []string{
		"EtcdMemberDown cp3", "KubeAPIServerDown cp3", "KubeControllerManagerDown cp2", "KubeSchedulerDown cp2",
	} {
		p.expectAlert(t, want, stopped.Add(7*time.Minute))
		t.Logf("%s fires %s after the stop", want, time.Since(stopped).Round(time.Second))
	}
	apply(t, w)
	p.expectTargets(t, 12)
	p.expectEnd(t)

	// Two of three members: the quorum is lost.
	stopped = time.Now()
	for _, name := range []string{"cp2", "cp3"} {
		onMachine(t, shared.lab.Machine(name), "systemctl stop etcd")
	}
	lost := []string{"EtcdNoLeader cp1", "EtcdInsufficientMembers "}
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

// prometheus is Debian's Prometheus on a machine of the lab.
type prometheus struct {
	machine *lab.Machine
}

// startPrometheus installs Prometheus, with the files in a directory as its configuration. The
// machine is made anew at the end of the test.
func startPrometheus(t *testing.T, m *lab.Machine, dir string) prometheus {
	t.Helper()
	t.Cleanup(func() {
		if err := m.Rebuild(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
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
	onMachine(t, m, "chown -R prometheus: /etc/prometheus/kube; promtool check config /etc/prometheus/prometheus.yml; "+
		"systemctl restart prometheus")
	return prometheus{m}
}

// get decodes the data of a request to the API of Prometheus. It is false while nobody answers.
func (p prometheus) get(t *testing.T, path string, data any) bool {
	t.Helper()
	text := onMachine(t, p.machine, "curl -sS --max-time 10 http://127.0.0.1:9090/api/v1/"+path+" 2>/dev/null || true")
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
