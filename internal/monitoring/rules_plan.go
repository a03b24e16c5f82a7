package monitoring

import "fmt"

// planDays is after how many days without a plan an alert fires: a pipeline that plans once a week is in time.
const planDays = 8

// ofPlan returns the last values of a metric that kube-review writes about plans, as lately, with an offset ("" for
// none). Whatever hands it on (a Pushgateway, the node_exporter of a runner) has a job of its own, so only the cluster
// selects it.
func (f Facts) ofPlan(metric, offset string) string {
	return fmt.Sprintf(`last_over_time(%s{cluster="%s"}[5m]%s)`, metric, f.Cluster, offset)
}

// stays returns what the last plan sees if a plan of 20 hours or more before it has seen the same, and each in between.
// Values are there until the next plan, so how long they are there does not tell how often they were seen. seen selects
// what plans see, with an offset. It begins at the plan at which it was not there five minutes before; what has no
// beginning is older than the days that are looked at. That the last plan is too old is another alert.
func (f Facts) stays(seen func(offset string) string) string {
	plan := fmt.Sprintf(`max by (cluster) (%s)`, f.ofPlan("kube_plan_timestamp_seconds", ""))
	now, before := seen(""), seen(" offset 5m")
	began := fmt.Sprintf(`max_over_time((0 * (%s unless %s) + on (cluster) group_left () %s)[%dd:5m])`,
		now, before, plan, planDays+1)
	return fmt.Sprintf(`%s and %s and on (cluster) time() - %[3]s < %[4]d * 86400 `+
		`unless %[3]s - on (cluster) group_right () %[5]s <= 20 * 3600`, now, before, plan, planDays, began)
}

// planAlerts are about what scheduled plans have seen.
func (f Facts) planAlerts() []Rule {
	drift := func(offset string) string {
		return fmt.Sprintf(`max by (cluster, resource, address) (%s) > 0`, f.ofPlan("kube_plan_drift_findings", offset))
	}
	failure := func(offset string) string {
		return fmt.Sprintf(`max by (cluster) (%s) == 0`, f.ofPlan("kube_plan_success", offset))
	}
	return []Rule{
		alert("KubeDriftStays", warning, "1h", f.stays(drift),
			"{{ $labels.resource }} has had drift for a day: the last plan has {{ $value }} findings about "+
				"{{ with $labels.address }}{{ . }}{{ else }}resources of that type{{ end }}.",
			"Read what the issue of the pipeline says, or run terraform plan: it shows the drift of {{ $labels.resource }}. An "+
				"apply repairs it, also one of the pipeline if its policy allows a repair."),
		alert("KubePlanMissing", warning, "1h",
			fmt.Sprintf(`absent(time() - %s < %d * 86400)`, f.ofPlan("kube_plan_timestamp_seconds", ""), planDays),
			fmt.Sprintf("No plan was made for %d days: drift is not seen, and certificates are not renewed.", planDays),
			"Check that the scheduled pipeline runs and pushes its metrics (guide Drift review), and run terraform plan: it "+
				"shows the drift of kube_etcd_member and kube_control_plane_replica, and which certificates are due."),
		alert("KubePlanFails", warning, "1h", f.stays(failure),
			"Planning has failed for a day: drift is not seen, and certificates are not renewed.",
			"Run terraform plan: it says what fails, such as a machine of kube_etcd_member or kube_control_plane_replica that "+
				"cannot be reached."),
	}
}
