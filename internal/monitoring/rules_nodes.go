package monitoring

import "fmt"

// nodeAlerts are about nodes, as the controller manager that leads counts them. It counts by zone, and a zone without
// nodes as 0.
func (f Facts) nodeAlerts() []Rule {
	count := func(metric string) string {
		return fmt.Sprintf(`sum by (cluster) (%s%s)`, metric, f.of(jobControllerManager, ""))
	}
	unhealthy, all := count("node_collector_unhealthy_nodes_in_zone"), count("node_collector_zone_size")
	const action = "Run kubectl get nodes: Ready is Unknown where the kubelet does not reach the API, and kubectl " +
		"describe node says why it is False. If it is most of them, look at the address of kube_control_plane_endpoint and " +
		"at the clocks; the guide Troubleshooting has the steps."
	return []Rule{
		alert("KubeNodesNotReady", warning, "15m", unhealthy+" > 0", "{{ $value }} nodes are not ready.", action),
		alert("KubeAllNodesNotReady", critical, "5m", fmt.Sprintf(`%s >= %s > 0`, unhealthy, all),
			"None of {{ $value }} nodes is ready: what they have in common has failed.", action),
	}
}
