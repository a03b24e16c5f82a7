package monitoring

import "fmt"

// webhookAlerts are about admission webhooks, which no mixin has. KubeAPILatencyHigh and KubeAPIErrorBudgetBurn leave
// them out: apiserver_request_sli_duration_seconds is without the time that webhooks take
// (apiserver/pkg/endpoints/metrics).
func (f Facts) webhookAlerts() []Rule {
	const action = "Run kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations: one of them has the " +
		"webhook. Check the Pods behind its Service, and how API servers reach them: by kube-proxy and a network of Pods " +
		"on their machines, or by konnectivity of kube_control_plane_replica."
	failures := func(metric, more string) string {
		return fmt.Sprintf(`sum by (cluster, name) (rate(%s%s[5m]))`, metric, f.of(jobAPIServer, more))
	}
	return []Rule{
		alert("KubeAPIWebhookSlow", warning, "10m",
			fmt.Sprintf(`histogram_quantile(0.99, sum by (cluster, name, le) `+
				`(rate(apiserver_admission_webhook_admission_duration_seconds_bucket%s[5m]))) > 1`, f.of(jobAPIServer, "")),
			"The admission webhook {{ $labels.name }} takes {{ $value }} s at the 99th percentile: each request that it sees "+
				"waits for it.", action),
		alert("KubeAPIWebhookFails", warning, "10m",
			fmt.Sprintf(`%s > 0 or %s > 0`,
				failures("apiserver_admission_webhook_rejection_count", `error_type!="no_error"`),
				failures("apiserver_admission_webhook_fail_open_count", "")),
			"Calls of the admission webhook {{ $labels.name }} fail: its requests are refused, or admitted without it.",
			action),
	}
}
