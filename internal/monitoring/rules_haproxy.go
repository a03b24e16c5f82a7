package monitoring

import "fmt"

// apiProxy is the name of HAProxy's frontend and backend of the API.
const apiProxy = `proxy="kube-apiserver"`

// balancerAlerts are about HAProxy, by its own exporter.
func (f Facts) balancerAlerts() []Rule {
	state := func(states string) string {
		return f.of(jobHAProxy, apiProxy+`,state=~"`+states+`"`)
	}
	api := f.of(jobHAProxy, apiProxy)
	const repair = "Run terraform plan: the drift of kube_control_plane_endpoint or of kube_control_plane_replica says " +
		"what is wrong, and an apply repairs it."
	return append(f.down(jobHAProxy, "HAProxyDown", warning, "kube_control_plane_endpoint"),
		alert("HAProxyServerDown", warning, "5m",
			fmt.Sprintf(`haproxy_server_status%s == 1`, state("DOWN|NOLB")),
			"HAProxy on {{ $labels.machine }} sends nothing to {{ $labels.server }}, whose checks fail.",
			"Look at KubeAPIServerDown of that machine. If it serves, this balancer does not reach its port. "+repair),
		alert("HAProxyServerDrained", warning, "30m",
			fmt.Sprintf(`haproxy_server_status%s == 1`, state("MAINT|DRAIN")),
			"{{ $labels.server }} has been out of rotation on {{ $labels.machine }} for longer than a change takes.",
			"Run terraform apply: it brings a replica back that an interrupted change has left out of rotation. "+repair),
		alert("HAProxyNoServers", critical, "1m", fmt.Sprintf(`haproxy_backend_active_servers%s == 0`, api),
			"HAProxy on {{ $labels.machine }} has no API server to send requests to.",
			"Look at KubeAPIServerDown and EtcdInsufficientMembers. "+repair),
		alert("HAProxyServersDiffer", warning, "10m",
			fmt.Sprintf(`max by (cluster) (count by (cluster, machine) (haproxy_server_status%[1]s)) > `+
				`min by (cluster) (count by (cluster, machine) (haproxy_server_status%[1]s))`, state("UP")),
			"The balancers do not list the same API servers.",
			"Run terraform apply: it lists the registered replicas on every balancer. "+repair),
		alert("HAProxySessionsNearLimit", warning, "5m",
			fmt.Sprintf(`haproxy_frontend_current_sessions%[1]s / haproxy_frontend_limit_sessions%[1]s > 0.8`, api),
			"HAProxy on {{ $labels.machine }} has {{ $value | humanizePercentage }} of the connections that it accepts.",
			"Look for the client that opens them (journalctl -u kube-endpoint-haproxy), or give haproxy.hosts of "+
				"kube_control_plane_endpoint machines of their own."))
}
