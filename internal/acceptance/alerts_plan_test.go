package acceptance

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
)

// planRules are the alerts about plans. They wait for seconds instead of an hour, and look at plans each half minute.
const planRules = `
output "plan_rules" {
  value = replace(yamlencode({ groups = [
    for group in yamldecode(provider::kube::alert_rules(
      merge(module.control_plane.monitoring, { plan_metrics = true, wait_factor = 0.0005 })
    ).rules).groups : group if endswith(group.name, ".plans")
  ] }), "5m", "30s")
}
`

// pushgateway is a job of Prometheus, as in the guide Monitoring.
const pushgateway = `
- job_name: pushgateway
  honor_labels: true
  scrape_interval: 15s
  static_configs: [{ targets: ["127.0.0.1:9091"] }]
`

// plans lets a pipeline make no plan, then two that have drift, and two that fail. Then the pipeline repairs the drift.
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
	drifted := a.planned(t)
	a.twice(t, r, drifted, "KubeDriftStays")
	a.p.expectAlerts(t, cause, 8*time.Minute, "KubeDriftStays")
	cause = time.Now()
	a.twice(t, r, "", "KubePlanFails") // as a pipeline does if planning failed
	a.p.expectAlerts(t, cause, 8*time.Minute, "KubePlanFails")
	a.p.expectEnd(t, "KubePlanMissing")
	apply(t, a.w)
	r.push(t, a.planned(t), 0)
}

// twice pushes the metrics of a plan as if it was made a day ago, and those of now once Prometheus knows the others. An
// alert does not fire on the first ones.
func (a alarms) twice(t *testing.T, r reviewer, plan, alert string) {
	t.Helper()
	r.push(t, plan, 24*time.Hour)
	known := "query?query=" + url.QueryEscape(`time() - max_over_time(kube_plan_timestamp_seconds[90s]) > 23 * 3600 and `+
		`count_over_time(kube_plan_timestamp_seconds[90s]) >= 5`)
	for end := time.Now().Add(5 * time.Minute); ; time.Sleep(time.Second) {
		var data struct{ Result []any }
		if a.p.get(t, known, &data) && len(data.Result) > 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("Prometheus does not know the first plan")
		}
	}
	if firing := a.p.alerts(t); slices.ContainsFunc(firing, func(name string) bool { return is(name, alert) }) {
		t.Errorf("%s fires after one plan", alert)
	}
	r.push(t, plan, 0)
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

// madeAt is the sample that says when a plan was made.
var madeAt = regexp.MustCompile(`(?m)^(kube_plan_timestamp_seconds\{.*\}) [0-9]+$`)

// push writes the metrics of a plan to the Pushgateway, as if it was made some time ago.
func (r reviewer) push(t *testing.T, plan string, ago time.Duration) {
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
	text, err := os.ReadFile(metrics)
	if err != nil || !madeAt.Match(text) {
		t.Fatalf("no plan was made at a time: %v\n%s", err, text)
	}
	write(t, metrics, madeAt.ReplaceAllString(string(text), fmt.Sprintf("${1} %d", time.Now().Add(-ago).Unix())))
	out, err = exec.CommandContext(t.Context(), "curl", "--fail", "--silent", "--show-error", "--request", "PUT",
		"--data-binary", "@"+metrics, r.pushgateway+"/metrics/job/kube-review/cluster/prod").CombinedOutput()
	if err != nil {
		t.Fatalf("curl: %v:\n%s", err, out)
	}
}
