package monitoring

import "fmt"

// operationsPanels are about balancers, and about what only the provider knows.
func (f Facts) operationsPanels() []panel {
	var panels []panel
	if len(f.Balancers) > 0 {
		panels = append(panels, f.balancerPanels()...)
	}
	if f.NodePort != 0 {
		panels = append(panels, f.factPanels()...)
	}
	return panels
}

func (f Facts) balancerPanels() []panel {
	api := f.of(jobHAProxy, apiProxy)
	return []panel{
		stat("Balancers up", "count(up"+f.of(jobHAProxy, "")+" == 1) or vector(0)", "", float64(len(f.Balancers))),
		graph("API servers in rotation", "", fmt.Sprintf(`sum by (machine) (haproxy_server_status%s)`,
			f.of(jobHAProxy, apiProxy+`,state="UP"`)), "{{machine}}"),
		graph("Sessions", "", "haproxy_frontend_current_sessions"+api, "{{machine}}"),
		graph("Sessions by API server", "", fmt.Sprintf(`sum by (server) (haproxy_server_current_sessions%s)`, api),
			"{{server}}"),
		graph("New connections", perSecond,
			fmt.Sprintf(`sum by (machine) (rate(haproxy_frontend_connections_total%s[$__rate_interval]))`, api), "{{machine}}"),
		graph("Health checks that fail", perSecond,
			fmt.Sprintf(`sum by (server) (rate(haproxy_server_check_failures_total%s[$__rate_interval]))`, api), "{{server}}"),
	}
}

func (f Facts) factPanels() []panel {
	since := func(metric string) string { return fmt.Sprintf(`time() - max by (cluster) (%s)`, f.fact(metric, "")) }
	panels := []panel{
		graph("Certificates on disk end in", seconds, fmt.Sprintf(`min by (machine, resource) (%s) - time()`,
			f.fact("kube_certificate_not_after_timestamp_seconds", "")), "{{machine}} {{resource}}"),
		graph("Certificates that are served end in", seconds, fmt.Sprintf(`min by (machine, resource) (%s) - time()`,
			f.fact("kube_served_certificate_not_after_timestamp_seconds", "")), "{{machine}} {{resource}}"),
		graph("Age of the last snapshot", seconds, since("kube_etcd_snapshot_saved_timestamp_seconds"), "saved and verified").
			and(since("kube_etcd_snapshot_sent_timestamp_seconds"), "sent"),
		graph("Versions that run", "", fmt.Sprintf(`count by (component, version) (%s)`,
			f.fact("kube_component_version_info", "")), "{{component}} {{version}}"),
		graph("Stages of rotations", "", fmt.Sprintf(`max by (part) (%s)`, f.fact("kube_rotation_generation", "")),
			"{{part}}"),
		graph("Offset of the clock", seconds, fmt.Sprintf(`max by (machine) (%s)`, f.fact("kube_clock_offset_seconds", "")),
			"{{machine}}"),
	}
	if len(f.holders()) > 0 {
		panels = append(panels,
			graph("Virtual IP", "", f.fact("kube_virtual_ip_held", ""), "{{address}} on {{machine}}"),
			graph("Moves of the virtual IP in an hour", "", fmt.Sprintf(`sum by (address) (increase(%s[1h]))`,
				f.fact("kube_virtual_ip_moves_total", "")), "{{address}}").above(2.5))
	}
	return panels
}
