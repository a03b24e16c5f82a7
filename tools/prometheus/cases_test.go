package prometheus

import (
	"fmt"
	"maps"
)

func init() { maps.Copy(cases, operationsCases()) }

// server returns the state of a server of the API in HAProxy.
func server(machine, name, state string) string {
	var all string
	for _, s := range []string{"UP", "DOWN", "MAINT", "DRAIN"} {
		value := "0"
		if s == state {
			value = "1"
		}
		all += series("haproxy_server_status", "haproxy", machine,
			fmt.Sprintf(`proxy="kube-apiserver",server=%q,state=%q`, name, s), value)
	}
	return all
}

// written returns when facts of all machines were written: the clock of these tests begins at 0.
func written(values string) string {
	var all string
	for machine := range machines {
		for _, resource := range []string{"kube_etcd_member", "kube_control_plane_replica", "kube_control_plane_endpoint"} {
			all += series("kube_facts_written_timestamp_seconds", "node", machine, fmt.Sprintf("resource=%q", resource), values)
		}
	}
	return all
}

// member returns a fact about the member on cp1.
func member(metric, more, values string) string {
	if more != "" {
		more = "," + more
	}
	return node(metric, `resource="kube_etcd_member"`+more, values)
}

const day = 86400

// operationsCases are input for the alerts about balancers and facts.
func operationsCases() map[string]struct{ bad, good string } {
	certificate := func(onDisk, served int) string {
		file := `file="/etc/kubernetes/pki/etcd/server.crt"`
		return member("kube_certificate_not_after_timestamp_seconds", file, fmt.Sprint(onDisk)) +
			member("kube_served_certificate_not_after_timestamp_seconds", file, fmt.Sprint(served))
	}
	often := member("kube_etcd_snapshot_interval_seconds", "", "600")
	rarely := member("kube_etcd_snapshot_interval_seconds", "", "21600")
	savedAt := func(at int) string { return member("kube_etcd_snapshot_saved_timestamp_seconds", "", fmt.Sprint(at)) }
	scheduledSince := func(machine string, since int) string {
		return series("kube_etcd_snapshots_scheduled_timestamp_seconds", "node", machine, `resource="kube_etcd_member"`,
			fmt.Sprint(since))
	}
	drill := func(machine string, ended, success int) string {
		const resource = `resource="kube_etcd_member"`
		return series("kube_etcd_restore_drill_timestamp_seconds", "node", machine, resource, fmt.Sprint(ended)) +
			series("kube_etcd_restore_drill_success", "node", machine, resource, fmt.Sprint(success))
	}
	const balancer = `resource="kube_control_plane_endpoint"`
	vip := func(values ...string) string {
		var all string
		for i, value := range values {
			at := fmt.Sprintf("cp%d", i+1)
			all += series("kube_virtual_ip_held", "node", at, balancer+`,address="10.0.0.100"`, value) +
				series("kube_facts_written_timestamp_seconds", "node", at, balancer, "0+30")
		}
		return all
	}
	announced := func(values ...string) string {
		var all string
		for i, value := range values {
			at, replica := fmt.Sprintf("cp%d", i+1), `resource="kube_control_plane_replica"`
			all += series("kube_endpoint_announced", "node", at, replica+`,address="10.200.0.1"`, value) +
				series("kube_facts_written_timestamp_seconds", "node", at, replica, "0+30")
		}
		return all
	}
	// stopped is what a machine has said last, whose facts are not written any more.
	stopped := func(machine, value string) string {
		return series("kube_virtual_ip_held", "node", machine, balancer+`,address="10.0.0.100"`, value) +
			series("kube_facts_written_timestamp_seconds", "node", machine, balancer, "-200")
	}
	generations := func(a, b string) string {
		return series("kube_rotation_generation", "node", "cp1", `part="kubernetes"`, a) +
			series("kube_rotation_generation", "node", "cp2", `part="kubernetes"`, b)
	}
	version := func(machine, component, version string) string {
		return series("kube_component_version_info", "node", machine, fmt.Sprintf("component=%q,version=%q", component, version), "1")
	}
	session := func(current string) string {
		return haproxy("haproxy_frontend_current_sessions", `proxy="kube-apiserver"`, current) +
			haproxy("haproxy_frontend_limit_sessions", `proxy="kube-apiserver"`, "1000")
	}
	return map[string]struct{ bad, good string }{
		"HAProxyDown":          {up("haproxy", "1", "1"), up("haproxy", "1", "1", "1")},
		"HAProxyServerDown":    {server("cp1", "cp2", "DOWN"), server("cp1", "cp2", "DRAIN")},
		"HAProxyServerDrained": {server("cp1", "cp2", "MAINT"), server("cp1", "cp2", "UP")},
		"HAProxyNoServers": {
			haproxy("haproxy_backend_active_servers", `proxy="kube-apiserver"`, "0"),
			haproxy("haproxy_backend_active_servers", `proxy="kube-apiserver"`, "1") +
				haproxy("haproxy_backend_active_servers", `proxy="konnectivity"`, "0"),
		},
		"HAProxyServersDiffer": {
			server("cp1", "cp1", "UP") + server("cp1", "cp2", "UP") + server("cp2", "cp1", "UP"),
			server("cp1", "cp1", "UP") + server("cp1", "cp2", "DOWN") + server("cp2", "cp1", "UP") + server("cp2", "cp2", "UP"),
		},
		"HAProxySessionsNearLimit": {session("900"), session("700")},
		"KubeFactsMissing":         {written("0"), written("0+30")},
		"KubeCertificateExpires":   {certificate(7*day, 7*day), certificate(9*day, 9*day)},
		"KubeCertificateExpiresSoon": {
			certificate(day, day), certificate(3*day, 3*day),
		},
		"KubeCertificateNotServed": {certificate(365*day, 90*day), certificate(365*day, 365*day)},
		"EtcdSnapshotTooOld": {
			often + member("kube_etcd_snapshots_scheduled_timestamp_seconds", "", "0"),
			often + member("kube_etcd_snapshots_scheduled_timestamp_seconds", "", "0") +
				series("kube_etcd_snapshot_saved_timestamp_seconds", "node", "cp2", `resource="kube_etcd_member"`, "0+30"),
		},
		"EtcdSnapshotTooOld, the schedule came back": {
			rarely + savedAt(-30*day) + scheduledSince("cp1", -40*day),
			rarely + savedAt(-30*day) + scheduledSince("cp1", 0),
		},
		"EtcdSnapshotTooOld, a machine was replaced": {
			rarely + savedAt(-30*day) + scheduledSince("cp1", -40*day) + scheduledSince("cp2", 0),
			// It had saved the last one.
			rarely + scheduledSince("cp1", 0) + scheduledSince("cp2", -40*day) +
				"  kube_etcd_snapshot_saved_timestamp_seconds{job=\"node\",cluster=\"prod\"," +
				"machine=\"cp1\",resource=\"kube_etcd_member\"} 0x20 stale\n",
		},
		"EtcdSnapshotFailed": {
			member("kube_etcd_snapshot_last_run_success", "", "0"), member("kube_etcd_snapshot_last_run_success", "", "1"),
		},
		"EtcdSnapshotNotSent": {
			often + member("kube_etcd_snapshot_unsent_since_timestamp_seconds", "", "0"),
			often + member("kube_etcd_snapshot_unsent_since_timestamp_seconds", "", "0+30"),
		},
		"EtcdRestoreDrillFailed": {
			drill("cp1", 100, 0) + drill("cp2", 50, 1), drill("cp1", 100, 0) + drill("cp2", 200, 1),
		},
		"EtcdRestoreDrillTooOld": {
			member("kube_etcd_restore_drill_last_success_timestamp_seconds", "", fmt.Sprint(-31*day)),
			member("kube_etcd_restore_drill_last_success_timestamp_seconds", "", fmt.Sprint(-31*day)) +
				series("kube_etcd_restore_drill_last_success_timestamp_seconds", "node", "cp2", `resource="kube_etcd_member"`,
					fmt.Sprint(-29*day)),
		},
		"KubeRotationStandsStill": {
			member("kube_rotation_since_timestamp_seconds", `part="kubernetes"`, fmt.Sprint(-8*day)),
			member("kube_rotation_since_timestamp_seconds", `part="kubernetes"`, fmt.Sprint(-6*day)),
		},
		"KubeRotationIncomplete":     {generations("4", "3"), generations("4", "4")},
		"KubeVirtualIPOnTwoMachines": {vip("1", "1", "0"), vip("1", "0") + stopped("cp3", "1")},
		"KubeVirtualIPOnNoMachine": {
			vip("0", "0", "0") + up("node", "1", "1", "1"), vip("0", "0") + stopped("cp3", "1") + up("node", "1", "1", "1"),
		},
		"KubeVirtualIPOnNoMachine, one is dead": {
			vip("0", "0") + up("node", "1", "1", "0"), vip("0", "1") + up("node", "1", "1", "0"),
		},
		// On the good input, cp3 runs without its exporter.
		"KubeVirtualIPOnNoMachine, one is not scraped": {
			vip("0", "0") + up("node", "1", "1", ""), vip("0", "0") + up("node", "1", "1", "0") + up("haproxy", "1", "1", "1"),
		},
		"KubeEndpointNotAnnounced": {announced("1", "0", "1"), announced("1", "1")},
		"KubeEndpointAnnouncedByNone": {
			announced("0", "0", "0") + up("node", "1", "1", "1"), announced("0", "1") + up("node", "1", "1", "0"),
		},
		"KubeEndpointAnnouncedByNone, one is dead": {
			announced("0", "0") + up("node", "1", "1", "0"), announced("0", "0") + up("node", "1", "1", "1"),
		},
		"KubeVirtualIPMoves": {
			node("kube_virtual_ip_moves_total", `address="10.0.0.100"`, "0+0.1"),
			node("kube_virtual_ip_moves_total", `address="10.0.0.100"`, "0+0.01"),
		},
		"KubeComponentVersionsMixed": {
			version("cp1", "etcd", "3.6.16") + version("cp2", "etcd", "3.5.34"),
			version("cp1", "etcd", "3.6.16") + version("cp2", "kube-scheduler", "1.36.3"),
		},
		"EtcdLearnerSince": {
			member("kube_etcd_learner_since_timestamp_seconds", "", "-3600"),
			member("kube_etcd_learner_since_timestamp_seconds", "", "0+30"),
		},
		"KubeClockOffset": {
			member("kube_clock_offset_seconds", "", "-0.7"), member("kube_clock_offset_seconds", "", "0.1"),
		},
	}
}
