package monitoring

import (
	"cmp"
	"fmt"
)

// apiAlerts are those of kubernetes-mixin that concern API servers (alerts/kube_apiserver.libsonnet),
// and limits of latency, errors and requests in flight.
func (f Facts) apiAlerts() []Rule {
	s := f.of(jobAPIServer, "")
	alerts := f.down(jobAPIServer, "KubeAPIServerDown", critical, "kube_control_plane_replica")
	alerts = append(alerts, f.apiRequests(s)...)
	return append(alerts, f.apiState(s)...)
}

func (f Facts) apiRequests(s string) []Rule {
	failed := func(percent int) string {
		return fmt.Sprintf(`100 * sum by (cluster) (rate(apiserver_request_total%s[5m])) / sum by (cluster) `+
			`(rate(apiserver_request_total%s[5m])) > %d`, f.of(jobAPIServer, `code=~"5.."`), s, percent)
	}
	summary := `{{ printf "%.1f" $value }} % of the requests to the API fail with a 5xx.`
	action := "Read the log of the API servers (journalctl -u kube-apiserver), and look at the alerts about etcd."
	inFlight := func(kind string, limit int) Rule {
		return alert("KubeAPIRequestsInFlight", warning, "5m", fmt.Sprintf(`max by (machine, request_kind) `+
			`(max_over_time(apiserver_current_inflight_requests%s[1m])) > %d`,
			f.of(jobAPIServer, `request_kind="`+kind+`"`), limit*8/10),
			fmt.Sprintf("The API server on {{ $labels.machine }} handles {{ $value }} of %d %s requests at once.", limit, kind),
			"Look for the client that sends them (apiserver_flowcontrol_request_concurrency_in_use), or raise the flag in "+
				"extra_args of kube_control_plane_replica.")
	}
	return []Rule{
		alert("KubeAPILatencyHigh", warning, "10m",
			fmt.Sprintf(`histogram_quantile(0.99, sum by (cluster, verb, resource, le) `+
				`(rate(apiserver_request_sli_duration_seconds_bucket%s[5m]))) > 1`,
				f.of(jobAPIServer, `verb=~"GET|POST|PUT|PATCH|DELETE",`+notLong)),
			"{{ $labels.verb }} {{ $labels.resource }} takes {{ $value }} s at the 99th percentile.",
			"Look at KubeAPIEtcdSlow, the load, and webhooks (apiserver_admission_webhook_admission_duration_seconds)."),
		alert("KubeAPIErrorsHigh", warning, "10m", failed(1), summary, action),
		alert("KubeAPIErrorsVeryHigh", critical, "5m", failed(5), summary, action),
		alert("KubeAPIEtcdSlow", warning, "10m",
			fmt.Sprintf(`histogram_quantile(0.99, sum by (machine, operation, le) `+
				`(rate(etcd_request_duration_seconds_bucket%s[5m]))) > 0.1`, s),
			"{{ $labels.operation }} in etcd takes {{ $value }} s at the 99th percentile, from {{ $labels.machine }}.",
			diskAction),
		inFlight("readOnly", cmp.Or(f.MaxRequests, defaultMaxRequests)),
		inFlight("mutating", cmp.Or(f.MaxMutatingRequests, defaultMaxMutatingRequests)),
		alert("KubeAPITerminatedRequests", warning, "5m",
			fmt.Sprintf(`100 * sum by (cluster) (rate(apiserver_request_terminations_total%[1]s[10m])) / `+
				`(sum by (cluster) (rate(apiserver_request_total%[1]s[10m])) + `+
				`sum by (cluster) (rate(apiserver_request_terminations_total%[1]s[10m]))) > 20`, s),
			`The API servers refuse {{ printf "%.0f" $value }} % of the requests for lack of capacity.`,
			"Look for the client that sends them; add machines, or raise max-requests-inflight in extra_args."),
	}
}

func (f Facts) apiState(s string) []Rule {
	expires := func(seconds int) string {
		const metric = "apiserver_client_certificate_expiration_seconds"
		return fmt.Sprintf(`histogram_quantile(0.01, sum by (cluster, le) (rate(%[1]s_bucket%[2]s[5m]))) < %[3]d `+
			`and on (cluster) sum by (cluster) (rate(%[1]s_count%[2]s[5m])) > 0`, metric, s, seconds)
	}
	const day = 24 * 60 * 60
	summary := "A client of the API uses a certificate that expires in {{ $value | humanizeDuration }}."
	action := "Run terraform plan: certificates of this control plane that are due are in the drift, and an apply " +
		"renews them. If there is none, it is a kubelet's or a user's."
	return []Rule{
		alert("KubeClientCertificateExpiration", warning, "5m", expires(7*day), summary, action),
		alert("KubeClientCertificateExpiresSoon", critical, "5m", expires(day), summary, action),
		alert("KubeAggregatedAPIDown", warning, "5m",
			fmt.Sprintf(`(1 - max by (cluster, name) (avg_over_time(aggregator_unavailable_apiservice%s[10m]))) * 100 `+
				`< 85`, s),
			"The aggregated API {{ $labels.name }} is available {{ $value }} % of the time only.",
			"Check the Pods behind its Service, and that API servers reach them (konnectivity)."),
		alert("KubeMixedVersions", warning, "4h",
			fmt.Sprintf(`count(count by (git_version) (kubernetes_build_info%s)) > 1`, s),
			"The API servers run {{ $value }} versions of Kubernetes for more than four hours.",
			"Run terraform apply: it goes on with the upgrade of kube_control_plane_replica, or says why it does not."),
	}
}

// controllerAlerts are about controller-manager and scheduler, and what they work on.
func (f Facts) controllerAlerts() []Rule {
	m, s := f.of(jobControllerManager, ""), f.of(jobScheduler, "")
	alerts := f.down(jobControllerManager, "KubeControllerManagerDown", warning, "kube_control_plane_replica")
	alerts = append(alerts, f.down(jobScheduler, "KubeSchedulerDown", warning, "kube_control_plane_replica")...)
	return append(alerts,
		alert("KubePodsUnschedulable", warning, "15m",
			fmt.Sprintf(`sum by (cluster) (scheduler_pending_pods%s) > 0`, f.of(jobScheduler, `queue="unschedulable"`)),
			"{{ $value }} Pods cannot be scheduled.",
			"Run kubectl get events --field-selector reason=FailedScheduling -A: nodes, resources or taints are missing."),
		alert("KubePodsPending", warning, "10m", fmt.Sprintf(`sum by (cluster) (scheduler_pending_pods%s) > 50`, s),
			"{{ $value }} Pods wait for the scheduler.",
			"Check that a scheduler leads (kubectl get lease kube-scheduler -n kube-system), and its log."),
		alert("KubeWorkQueueDeep", warning, "10m", fmt.Sprintf(`max by (cluster, name) (workqueue_depth%s) > 100`, m),
			"{{ $value }} objects wait in the queue of the controller {{ $labels.name }}.",
			"Read the log of the controller-manager that leads, and look at KubeAPILatencyHigh."),
		alert("KubeWorkQueueSlow", warning, "10m",
			fmt.Sprintf(`histogram_quantile(0.99, sum by (cluster, name, le) `+
				`(rate(workqueue_queue_duration_seconds_bucket%s[5m]))) > 5`, m),
			"Objects wait {{ $value }} s in the queue of the controller {{ $labels.name }} at the 99th percentile.",
			"Read the log of the controller-manager that leads, and look at KubeAPILatencyHigh."),
	)
}
