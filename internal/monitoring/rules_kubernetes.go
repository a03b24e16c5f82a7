package monitoring

import (
	"cmp"
	"fmt"
	"time"
)

// aggregatedAction is the action of alerts about aggregated APIs.
const aggregatedAction = "Run kubectl get apiservice {{ $labels.name }}, and check the Pods behind its Service. API " +
	"servers reach them by kube-proxy and a network of Pods on their machines, or by konnectivity of " +
	"kube_control_plane_replica."

// queueAction is the action of alerts about the queues of controllers.
const queueAction = "Run kubectl get lease kube-controller-manager -n kube-system: it names the " +
	"kube_control_plane_replica that leads. Read the log there (journalctl -u kube-controller-manager), and look at " +
	"KubeAPILatencyHigh."

// apiAlerts are those of kubernetes-mixin that concern API servers (alerts/kube_apiserver.libsonnet),
// and limits of latency, errors and requests in flight.
func (f Facts) apiAlerts() []Rule {
	s := f.of(jobAPIServer, "")
	alerts := f.down(jobAPIServer, "KubeAPIServerDown", critical, "kube_control_plane_replica")
	alerts = append(alerts, f.apiRequests(s)...)
	alerts = append(alerts, f.webhookAlerts()...)
	return append(alerts, f.apiState(s)...)
}

func (f Facts) apiRequests(s string) []Rule {
	failed := func(percent int) string {
		return fmt.Sprintf(`100 * sum by (cluster) (rate(apiserver_request_total%s[5m])) / sum by (cluster) `+
			`(rate(apiserver_request_total%s[5m])) > %d`, f.of(jobAPIServer, forResources+`,code=~"5.."`),
			f.of(jobAPIServer, forResources), percent)
	}
	summary := `{{ printf "%.1f" $value }} % of the requests to the API fail with a 5xx.`
	action := "Read the log of the API servers (journalctl -u kube-apiserver), run terraform plan for the drift of " +
		"kube_control_plane_replica and kube_etcd_member, and look at the alerts about etcd."
	inFlight := func(kind string, limit int) Rule {
		return alert("KubeAPIRequestsInFlight", warning, "5m", fmt.Sprintf(`max by (machine, request_kind) `+
			`(max_over_time(apiserver_current_inflight_requests%s[1m])) > %d`,
			f.of(jobAPIServer, `request_kind="`+kind+`"`), limit*8/10),
			fmt.Sprintf("The API server on {{ $labels.machine }} handles {{ $value }} of %d %s requests at once.", limit, kind),
			"Look for the client that sends them (kubectl get --raw /debug/api_priority_and_fairness/dump_priority_levels), "+
				"or raise the flag in extra_args of kube_control_plane_replica.")
	}
	return []Rule{
		alert("KubeAPILatencyHigh", warning, "10m",
			fmt.Sprintf(`histogram_quantile(0.99, sum by (cluster, verb, resource, le) `+
				`(rate(apiserver_request_sli_duration_seconds_bucket%s[5m]))) > 1`,
				f.of(jobAPIServer, `verb=~"GET|POST|PUT|PATCH|DELETE",`+forResources+","+notLong)),
			"{{ $labels.verb }} {{ $labels.resource }} takes {{ $value }} s at the 99th percentile.",
			"Look at KubeAPIEtcdSlow and the alerts about the disks of kube_etcd_member, and at what the machines of the "+
				"kube_control_plane_replica resources do (top). The time of webhooks is not in it: KubeAPIWebhookSlow has that."),
		alert("KubeAPIErrorsHigh", warning, "10m", failed(1), summary, action),
		alert("KubeAPIErrorsVeryHigh", critical, "5m", failed(5), summary, action),
		alert("KubeAPIEtcdSlow", warning, "10m",
			fmt.Sprintf(`histogram_quantile(0.99, sum by (machine, operation, le) `+
				`(rate(etcd_request_duration_seconds_bucket%s[5m]))) > 0.1`, s),
			"{{ $labels.operation }} in etcd takes {{ $value }} s at the 99th percentile, from {{ $labels.machine }}.",
			"Look at EtcdHighFsyncDurations, EtcdHighCommitDurations and EtcdMemberCommunicationSlow: they name the machine "+
				"of the kube_etcd_member that is slow. If there is none, look at what the machine of the API server does (top), "+
				"and at its network (ping)."),
		inFlight("readOnly", cmp.Or(f.MaxRequests, defaultMaxRequests)),
		inFlight("mutating", cmp.Or(f.MaxMutatingRequests, defaultMaxMutatingRequests)),
		alert("KubeAPITerminatedRequests", warning, "5m",
			fmt.Sprintf(`100 * sum by (cluster) (rate(apiserver_request_terminations_total%[1]s[10m])) / `+
				`(sum by (cluster) (rate(apiserver_request_total%[1]s[10m])) + `+
				`sum by (cluster) (rate(apiserver_request_terminations_total%[1]s[10m]))) > 20`, s),
			`The API servers refuse {{ printf "%.0f" $value }} % of the requests for lack of capacity.`,
			"Look for the client that sends them (kubectl get --raw /debug/api_priority_and_fairness/dump_priority_levels). "+
				"Add machines, or raise max-requests-inflight in extra_args of kube_control_plane_replica."),
	}
}

func (f Facts) apiState(s string) []Rule {
	const day = 24 * time.Hour
	const summary = "More than 1 % of the requests to the API come with a client certificate that expires within "
	action := "Run terraform plan: certificates that are due are in the drift of kube_control_plane_replica, " +
		"kube_etcd_member and kube_kubeconfig, and an apply renews them. If there is none, it is a kubelet's or a user's."
	return []Rule{
		alert("KubeClientCertificateExpiration", warning, "5m", f.expiring(7*day), summary+"7 days.", action),
		alert("KubeClientCertificateExpiresSoon", critical, "5m", f.expiring(day), summary+"a day.", action),
		alert("KubeAggregatedAPIErrors", warning, "10m",
			fmt.Sprintf(`sum by (cluster, name, reason) (increase(aggregator_unavailable_apiservice_total%s[2m])) > 0`, s),
			"The aggregated API {{ $labels.name }} has become unavailable again and again ({{ $labels.reason }}).",
			aggregatedAction),
		alert("KubeAggregatedAPIDown", warning, "5m",
			fmt.Sprintf(`(1 - max by (cluster, name) (avg_over_time(aggregator_unavailable_apiservice%s[10m]))) * 100 `+
				`< 85`, s),
			"The aggregated API {{ $labels.name }} is available {{ $value }} % of the time only.",
			aggregatedAction),
		alert("KubeMixedVersions", warning, "4h",
			fmt.Sprintf(`count(count by (git_version) (%s)) > 1`, lately("kubernetes_build_info"+s)),
			"The API servers run {{ $value }} versions of Kubernetes for more than four hours.",
			"Run terraform apply: it goes on with the upgrade of kube_control_plane_replica, or says why it does not."),
	}
}

// expiring is true if more than 1 % of the requests come with a certificate that expires within a time, as in
// Kubernetes' mixin. Certificates of an hour or less do not count: this provider, and ephemeral kubeconfigs, issue
// them for one apply, and nobody renews them.
func (f Facts) expiring(within time.Duration) string {
	const metric = "apiserver_client_certificate_expiration_seconds"
	upTo := func(d time.Duration) string {
		return fmt.Sprintf(`sum by (cluster) (rate(%s_bucket%s[5m]))`, metric,
			f.of(jobAPIServer, fmt.Sprintf(`le=~"%d(\\.0)?"`, int(d.Seconds()))))
	}
	return fmt.Sprintf(`%s - %s > 0.01 * sum by (cluster) (rate(%s_count%s[5m]))`, upTo(within), upTo(time.Hour), metric,
		f.of(jobAPIServer, ""))
}

// controllerAlerts are about controller-manager and scheduler, and what they work on.
func (f Facts) controllerAlerts() []Rule {
	m := f.of(jobControllerManager, "")
	alerts := f.down(jobControllerManager, "KubeControllerManagerDown", warning, "kube_control_plane_replica")
	alerts = append(alerts, f.down(jobScheduler, "KubeSchedulerDown", warning, "kube_control_plane_replica")...)
	alerts = append(alerts, f.nodeAlerts()...)
	return append(alerts,
		alert("KubePodsUnschedulable", warning, "15m",
			fmt.Sprintf(`sum by (cluster) (scheduler_pending_pods%s) > 0`, f.of(jobScheduler, `queue="unschedulable"`)),
			"{{ $value }} Pods cannot be scheduled.",
			"Run kubectl get events --field-selector reason=FailedScheduling -A: they name what nodes lack. Workers join by "+
				"kube_node_bootstrap."),
		alert("KubePodsPending", warning, "10m", fmt.Sprintf(`sum by (cluster) (scheduler_pending_pods%s) > 50`,
			f.of(jobScheduler, `queue!="gated"`)), // gated Pods wait for their owner
			"{{ $value }} Pods wait for the scheduler.",
			"Check that the scheduler of a kube_control_plane_replica leads (kubectl get lease kube-scheduler -n "+
				"kube-system), and read its log (journalctl -u kube-scheduler)."),
		alert("KubeWorkQueueDeep", warning, "10m", fmt.Sprintf(`max by (cluster, name) (workqueue_depth%s) > 100`, m),
			"{{ $value }} objects wait in the queue of the controller {{ $labels.name }}.",
			queueAction),
		alert("KubeWorkQueueSlow", warning, "10m",
			fmt.Sprintf(`histogram_quantile(0.99, sum by (cluster, name, le) `+
				`(rate(workqueue_queue_duration_seconds_bucket%s[5m]))) > 5`, m),
			"Objects wait {{ $value }} s in the queue of the controller {{ $labels.name }} at the 99th percentile.",
			queueAction),
	)
}
