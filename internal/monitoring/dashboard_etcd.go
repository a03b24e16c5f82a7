package monitoring

import "fmt"

// etcdPanels are those of etcd's mixin (contrib/mixin/dashboards/etcd.json), by machine, with the
// limits of the alerts.
func (f Facts) etcdPanels() []panel {
	s := f.of(jobEtcd, "")
	rate := func(metric string) string { return fmt.Sprintf(`rate(%s%s[$__rate_interval])`, metric, s) }
	p99 := func(metric, by string) string {
		return fmt.Sprintf(`histogram_quantile(0.99, sum by (%s, le) (%s))`, by, rate(metric+"_bucket"))
	}
	const machine = "{{machine}}"
	grpc := func(kind string) string {
		return fmt.Sprintf(`sum(grpc_server_started_total%[1]s) - sum(grpc_server_handled_total%[1]s)`,
			f.of(jobEtcd, fmt.Sprintf(`grpc_service="etcdserverpb.%s",grpc_type="bidi_stream"`, kind)))
	}
	size, quota := "etcd_mvcc_db_total_size_in_bytes"+s, "etcd_server_quota_backend_bytes"+s
	return []panel{
		stat("Members up", "count(up"+s+" == 1) or vector(0)", "", float64(len(f.Members))),
		stat("Members that see a leader", "sum(etcd_server_has_leader"+s+")", "", float64(len(f.Members))),
		graph("Leader", "", "etcd_server_is_leader"+s, machine),
		graph("Leader changes in 15 minutes", "",
			fmt.Sprintf(`increase(etcd_server_leader_changes_seen_total%s[15m])`, s), machine).above(4),
		graph("Requests", perSecond, fmt.Sprintf(`sum by (machine) (rate(grpc_server_started_total%s[$__rate_interval]))`,
			f.of(jobEtcd, `grpc_type="unary"`)), machine),
		graph("Requests that fail", percent, fmt.Sprintf(`sum by (machine) (rate(grpc_server_handled_total%s`+
			`[$__rate_interval])) / sum by (machine) (%s)`, f.of(jobEtcd, failedCodes),
			rate("grpc_server_handled_total")), machine).above(0.01),
		graph("Log flush, 99th percentile", seconds, p99("etcd_disk_wal_fsync_duration_seconds", "machine"),
			machine).above(0.5),
		graph("Database commit, 99th percentile", seconds, p99("etcd_disk_backend_commit_duration_seconds", "machine"),
			machine).above(0.25),
		graph("Round trip to a peer, 99th percentile", seconds,
			p99("etcd_network_peer_round_trip_time_seconds", "machine, To"), "{{machine}} to {{To}}").above(0.15),
		graph("Database", bytesUnit, size, machine).
			and("etcd_mvcc_db_total_size_in_use_in_bytes"+s, "{{machine}} in use"),
		graph("Database, part of the quota", percent, size+" / "+quota, machine).above(0.95),
		graph("Proposals", "", `sum by (machine) (`+rate("etcd_server_proposals_committed_total")+`)`,
			"{{machine}} committed").
			and("etcd_server_proposals_pending"+s, "{{machine}} pending").
			and(rate("etcd_server_proposals_failed_total"), "{{machine}} failed"),
		graph("Watches and leases", "", grpc("Watch"), "watch streams").and(grpc("Lease"), "lease streams"),
		graph("Memory", bytesUnit, "process_resident_memory_bytes"+s, machine),
		graph("CPU", "", rate("process_cpu_seconds_total"), machine),
	}
}
