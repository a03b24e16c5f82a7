package acceptance

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
)

// planRules are the alerts about plans. They wait for seconds instead of a day.
const planRules = `
output "plan_rules" {
  value = yamlencode({ groups = [
    for group in yamldecode(provider::kube::alert_rules(
      merge(module.control_plane.monitoring, { plan_metrics = true, wait_factor = 0.0005 })
    ).rules).groups : group if endswith(group.name, ".plans")
  ] })
}
`

// pushgateway is a job of Prometheus, as in the guide Monitoring.
const pushgateway = `
- job_name: pushgateway
  honor_labels: true
  scrape_interval: 15s
  static_configs: [{ targets: ["127.0.0.1:9091"] }]
`

// plans lets a pipeline make no plan, then one that has drift, and one that fails. Then the pipeline repairs the drift.
func (a alarms) plans(t *testing.T) {
	t.Helper()
	dir := prometheusFiles(t, a.w)
	write(t, filepath.Join(dir, "plans.yml"), outputOf(t, a.w, "plan_rules"))
	write(t, filepath.Join(dir, "prometheus.yml"),
		"rule_files: [/etc/prometheus/control-plane.yml, /etc/prometheus/plans.yml]\n"+
			outputOf(t, a.w, "scrape_configs")+pushgateway)
	onMachine(t, a.p.machine, "DEBIAN_FRONTEND=noninteractive apt-get install -y -q prometheus-pushgateway "+
		">/tmp/apt.log 2>&1 || { tail /tmp/apt.log; exit 1; }")
	cause := time.Now()
	a.p.configure(t, dir)
	a.p.expectAlerts(t, cause, 2*time.Minute, "KubePlanMissing")

	r := newReviewer(t, "http://"+address("cp4")+":9091")
	cause = time.Now()
	a.on(t, "cp1", "echo '# by hand' >>/etc/systemd/system/kube-scheduler.service; systemctl daemon-reload")
	r.push(t, a.planned(t))
	a.p.expectAlerts(t, cause, 3*time.Minute, "KubeDriftStays")
	cause = time.Now()
	r.push(t, "") // as a pipeline does if planning failed
	a.p.expectAlerts(t, cause, 3*time.Minute, "KubePlanFails")
	a.p.expectEnd(t, "KubePlanMissing")
	apply(t, a.w)
	r.push(t, a.planned(t))
}

// planned returns a plan as JSON.
func (a alarms) planned(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "plan")
	if _, _, err := a.w.Plan(t.Context(), "-out="+file); err != nil {
		t.Fatal(err)
	}
	text, err := a.w.Run(t.Context(), "show", "-json", file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// reviewer is what a scheduled pipeline runs after its plan.
type reviewer struct {
	program, policy string
	pushgateway     string // its URL
}

func newReviewer(t *testing.T, pushgateway string) reviewer {
	t.Helper()
	dir := t.TempDir()
	r := reviewer{filepath.Join(dir, "kube-review"), filepath.Join(dir, "policy.yaml"), pushgateway}
	if err := build.Provider(t.Context(), "cmd/kube-review", r.program); err != nil {
		t.Fatal(err)
	}
	write(t, r.policy, yearPolicy)
	return r
}

// push writes the metrics of a plan to the Pushgateway.
func (r reviewer) push(t *testing.T, plan string) {
	t.Helper()
	metrics := filepath.Join(t.TempDir(), "plan.prom")
	command := exec.CommandContext(t.Context(), r.program, "-policy", r.policy, "-metrics", metrics, "prod=-")
	command.Stdin = strings.NewReader(plan)
	out, err := command.CombinedOutput()
	var ended *exec.ExitError
	if errors.As(err, &ended) && ended.ExitCode() != 2 { // the metrics are written
		err = nil
	}
	if err != nil {
		t.Fatalf("kube-review: %v:\n%s", err, out)
	}
	out, err = exec.CommandContext(t.Context(), "curl", "--fail", "--silent", "--show-error", "--request", "PUT",
		"--data-binary", "@"+metrics, r.pushgateway+"/metrics/job/kube-review/cluster/prod").CombinedOutput()
	if err != nil {
		t.Fatalf("curl: %v:\n%s", err, out)
	}
}
