package review

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// TestMetrics checks what is written about plans of each outcome.
func TestMetrics(t *testing.T) {
	report := Report{
		Policy: &wide, Now: noon,
		Plans: []NamedPlan{
			readPlan(t, "drifted", repairing(t)), readPlan(t, "due", renewing(t)), readPlan(t, "quiet", document(t, "nothing")),
			{Name: `failed "here"`, Err: errors.New("x")},
		},
	}
	got := Metrics(report, AppliedAll)
	for _, want := range []string{
		"# TYPE kube_plan_timestamp_seconds gauge\n",
		`kube_plan_timestamp_seconds{cluster="quiet"} 1795325265` + "\n", // 2026-11-22T05:27:45Z
		fmt.Sprintf(`kube_plan_timestamp_seconds{cluster="failed \"here\""} %d`, noon.Unix()),
		`kube_plan_success{cluster="drifted"} 1` + "\n", `kube_plan_success{cluster="failed \"here\""} 0` + "\n",
		`kube_plan_drift_findings{cluster="drifted",resource="kube_control_plane_replica",` +
			`address="kube_control_plane_replica.this[\"cp1\"]"} 1` + "\n",
		`kube_plan_certificates_due{cluster="due",resource="kube_etcd_member",` +
			`address="kube_etcd_member.this[\"cp3\"]"} 2` + "\n",
		`kube_plan_class{cluster="drifted",class="repair"} 1` + "\n",
		`kube_plan_class{cluster="drifted",class="other"} 0` + "\n",
		`kube_plan_class{cluster="quiet",class="none"} 1` + "\n",
		`kube_plan_waits_for_person{cluster="drifted"} 0` + "\n",
		`kube_plan_waits_for_person{cluster="quiet"} 0` + "\n",
		`kube_plan_waits_for_person{cluster="failed \"here\""} 1` + "\n",
		`kube_plan_applied{cluster="quiet"} 1` + "\n", `kube_plan_apply_failed{cluster="quiet"} 0` + "\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the metrics lack %q:\n%s", want, got)
		}
	}
	for _, not := range []string{
		`kube_plan_drift_findings{cluster="due"`, `kube_plan_drift_findings{cluster="quiet"`,
		`kube_plan_certificates_due{cluster="drifted"`, "TOP-SECRET", "inactive",
	} {
		if strings.Contains(got, not) {
			t.Errorf("the metrics have %q:\n%s", not, got)
		}
	}
	line := regexp.MustCompile(`^(# (HELP|TYPE) [a-z_]+ .+|[a-z_]+\{([a-z]+="([^"\\]|\\.)*",?)+\} [0-9]+|# EOF)$`)
	for text := range strings.Lines(got) {
		if !line.MatchString(strings.TrimSuffix(text, "\n")) {
			t.Errorf("no line of metrics: %q", text)
		}
	}
	if !strings.HasSuffix(got, "\n# EOF\n") {
		t.Errorf("the metrics do not end: %s", got)
	}
	failed := Metrics(Report{Plans: report.Plans, Now: noon}, ApplyFailed)
	if strings.Contains(failed, "kube_plan_class{") ||
		!strings.Contains(failed, `kube_plan_apply_failed{cluster="due"} 1`) {
		t.Errorf("without a policy: %s", failed)
	}
}

// TestMetricsAreBounded: neither the number of series nor their labels grow with a plan.
func TestMetricsAreBounded(t *testing.T) {
	var plane ControlPlane
	for i := range 3 * maxSeries {
		plane.Secrets = append(plane.Secrets, Resource{
			Address: fmt.Sprintf("kube_etcd_member.%04d\n\u202e%s", i, strings.Repeat("ä", maxLabel)), Kind: "kube_etcd_member",
			Drift: []string{"x"}, Missing: true,
		})
	}
	plan := NamedPlan{Name: "a", Plan: Plan{ControlPlanes: []ControlPlane{plane}}}
	got := Metrics(Report{Plans: []NamedPlan{plan}, Now: noon}, AppliedNothing)
	series := 0
	for line := range strings.Lines(got) {
		if !strings.HasPrefix(line, "kube_plan_drift_findings{") {
			continue
		}
		series++
		if len(line) > 2*maxLabel || strings.Contains(line, "\u202e") {
			t.Errorf("%q", line)
		}
	}
	rest := fmt.Sprintf(`kube_plan_drift_findings{cluster="a",resource="kube_etcd_member",address=""} %d`, 4*maxSeries)
	if series != maxSeries+1 || !strings.Contains(got, rest+"\n") {
		t.Errorf("%d series:\n%.2000s", series, got)
	}
}
