package monitoring

import "fmt"

// planDays is after how many days without a plan an alert fires: a pipeline that plans once a week is in time.
const planDays = 8

// ofPlan returns the last values of a metric that kube-review writes about plans. Whatever hands it on (a
// Pushgateway, the node_exporter of a runner) has a job of its own, so only the cluster selects it.
func (f Facts) ofPlan(metric string) string {
	return lately(fmt.Sprintf(`%s{cluster="%s"}`, metric, f.Cluster))
}

// planAlerts are about what the last scheduled plan has seen.
func (f Facts) planAlerts() []Rule {
	return []Rule{
		alert("KubeDriftStays", warning, "24h",
			fmt.Sprintf(`max by (cluster, resource, address) (%s) > 0`, f.ofPlan("kube_plan_drift_findings")),
			"{{ $labels.resource }} has had drift for a day: the last plan has {{ $value }} findings about "+
				"{{ with $labels.address }}{{ . }}{{ else }}resources of that type{{ end }}.",
			"Read what the issue of the pipeline says, or run terraform plan: it shows the drift of {{ $labels.resource }}. An "+
				"apply repairs it, also one of the pipeline if its policy allows a repair."),
		alert("KubePlanMissing", warning, "1h",
			fmt.Sprintf(`absent(time() - %s < %d * 86400)`, f.ofPlan("kube_plan_timestamp_seconds"), planDays),
			fmt.Sprintf("No plan was made for %d days: drift is not seen, and certificates are not renewed.", planDays),
			"Check that the scheduled pipeline runs and pushes its metrics (guide Drift review), and run terraform plan: it "+
				"shows the drift of kube_etcd_member and kube_control_plane_replica, and which certificates are due."),
		alert("KubePlanFails", warning, "24h",
			fmt.Sprintf(`max by (cluster) (%s) == 0`, f.ofPlan("kube_plan_success")),
			"Planning has failed for a day: drift is not seen, and certificates are not renewed.",
			"Run terraform plan: it says what fails, such as a machine of kube_etcd_member or kube_control_plane_replica that "+
				"cannot be reached."),
	}
}
