package monitoring

import "fmt"

// The actions of alerts about a disk, and about space.
const (
	diskAction = "Look for what else uses the disk (iostat -x 1), and give etcd a disk of its own: replace " +
		"kube_etcd_member of {{ $labels.machine }} with another data_dir or machine."
	spaceAction = "Delete what is not needed, or raise quota-backend-bytes in extra_args of every kube_etcd_member, " +
		"and run terraform apply: it clears the alarm NOSPACE."
)

// failedCodes matches requests that fail for a reason that is not the client's.
const failedCodes = `grpc_code=~"Unknown|FailedPrecondition|ResourceExhausted|Internal|Unavailable|DataLoss|` +
	`DeadlineExceeded"`

// etcdAlerts are those of etcd's mixin (contrib/mixin/alerts/alerts.libsonnet), and some that it
// does not have: learners and mixed versions.
func (f Facts) etcdAlerts() []Rule {
	s := f.of(jobEtcd, "")
	alerts := f.down(jobEtcd, "EtcdMemberDown", critical, "kube_etcd_member")
	alerts = append(alerts, f.etcdAvailability(s)...)
	alerts = append(alerts, f.etcdRequests(s)...)
	return append(alerts, f.etcdStorage(s)...)
}

func (f Facts) etcdAvailability(s string) []Rule {
	return []Rule{
		alert("EtcdInsufficientMembers", critical, "3m",
			fmt.Sprintf(`(count(up%s == 1) or vector(0)) < %d`, s, len(f.Members)/2+1),
			"etcd has {{ $value }} members, fewer than its quorum: no write succeeds.",
			"Start the machines of the members, and run terraform apply: it starts each kube_etcd_member that is "+
				"stopped. If most of their data is lost, follow the guide When everything is lost."),
		alert("EtcdNoLeader", critical, "1m", fmt.Sprintf(`etcd_server_has_leader%s == 0`, s),
			"The member on {{ $labels.machine }} sees no leader.",
			"Run terraform plan: the drift of the kube_etcd_member resources says which members do not run or cannot be "+
				"reached. Members need each other at port 2380, and disks that answer (iostat -x 1)."),
		alert("EtcdHighNumberOfLeaderChanges", warning, "5m",
			// The mixin takes the increase of a maximum over members, which a restart of the one with the highest count makes
			// a reset. A start counts as one change, of the leader that the member then sees.
			fmt.Sprintf(`max by (cluster) (increase(etcd_server_leader_changes_seen_total%[1]s[15m]) - `+
				`resets(etcd_server_leader_changes_seen_total%[1]s[15m])) >= 4`, s),
			"{{ $value }} leader changes within 15 minutes.",
			"Run journalctl -u etcd on the machines of the kube_etcd_member resources: a leader that is late says so. Look "+
				"at EtcdHighFsyncDurations and EtcdMemberCommunicationSlow: a slow disk or network is the usual cause."),
		alert("EtcdLearnerStays", warning, "1h", lately("etcd_server_is_learner"+s)+" == 1",
			"The member on {{ $labels.machine }} has been a learner for an hour: it has no vote.",
			"Run terraform apply: it goes on with the join of kube_etcd_member, and says why it waits."),
		alert("EtcdMixedVersions", warning, "1h",
			fmt.Sprintf(`count(count by (server_version) (%s)) > 1`, lately("etcd_server_version"+s)),
			"The members run {{ $value }} versions of etcd for more than an hour.",
			"Run terraform apply: it goes on with the upgrade of kube_etcd_member, or says why it does not."),
	}
}

func (f Facts) etcdRequests(s string) []Rule {
	failed := func(percent int) string {
		return fmt.Sprintf(`100 * sum by (machine) (rate(grpc_server_handled_total%s[5m])) / `+
			`sum by (machine) (rate(grpc_server_handled_total%s[5m])) > %d`, f.of(jobEtcd, failedCodes), s, percent)
	}
	summary := `{{ printf "%.1f" $value }} % of the requests to the member on {{ $labels.machine }} fail.`
	action := "Read its log (journalctl -u etcd), and run terraform plan: the drift of kube_etcd_member says what is " +
		"wrong, such as an alarm."
	alerts := []Rule{
		alert("EtcdHighNumberOfFailedGRPCRequests", warning, "10m", failed(1), summary, action),
		alert("EtcdVeryHighNumberOfFailedGRPCRequests", critical, "5m", failed(5), summary, action),
		alert("EtcdMemberCommunicationSlow", warning, "10m",
			fmt.Sprintf(`histogram_quantile(0.99, sum by (machine, To, le) `+
				`(rate(etcd_network_peer_round_trip_time_seconds_bucket%s[5m]))) > 0.15`, s),
			"The round trip from {{ $labels.machine }} to member {{ $labels.To }} takes {{ $value }} s at the 99th percentile.",
			"Run ping between the machines of these kube_etcd_member resources, and look for what stops or fills them (top): "+
				"a process that is paused is late as well."),
		alert("EtcdHighNumberOfFailedProposals", warning, "15m",
			fmt.Sprintf(`rate(etcd_server_proposals_failed_total%s[15m]) > 5`, s),
			"The member on {{ $labels.machine }} fails {{ $value }} proposals a second.",
			"Run terraform plan: the drift of the kube_etcd_member resources says what is wrong. Look at the alerts about "+
				"leaders, quorum and disks: proposals fail for one of these."),
	}
	if f.Extensive {
		alerts = append(alerts, alert("EtcdGRPCRequestsSlow", critical, "10m",
			fmt.Sprintf(`histogram_quantile(0.99, sum by (machine, grpc_method, le) (rate(grpc_server_handling_seconds_bucket%s`+
				`[5m]))) > 0.15`, f.of(jobEtcd, `grpc_type="unary",grpc_method!="Defragment"`)),
			"{{ $labels.grpc_method }} of the member on {{ $labels.machine }} takes {{ $value }} s at the 99th percentile.",
			diskAction))
	}
	return alerts
}

func (f Facts) etcdStorage(s string) []Rule {
	slow := func(metric string, seconds string) string {
		return fmt.Sprintf(`histogram_quantile(0.99, sum by (machine, le) (rate(%s_bucket%s[5m]))) > %s`, metric, s, seconds)
	}
	const fsync, commit = "etcd_disk_wal_fsync_duration_seconds", "etcd_disk_backend_commit_duration_seconds"
	flushes := "A flush of the log on {{ $labels.machine }} takes {{ $value }} s at the 99th percentile."
	return []Rule{
		alert("EtcdHighFsyncDurations", warning, "10m", slow(fsync, "0.5"), flushes, diskAction),
		alert("EtcdVeryHighFsyncDurations", critical, "10m", slow(fsync, "1"), flushes, diskAction),
		alert("EtcdHighCommitDurations", warning, "10m", slow(commit, "0.25"),
			"A commit of the database on {{ $labels.machine }} takes {{ $value }} s at the 99th percentile.", diskAction),
		alert("EtcdDatabaseQuotaLowSpace", critical, "10m",
			fmt.Sprintf(`100 * etcd_mvcc_db_total_size_in_bytes%[1]s / etcd_server_quota_backend_bytes%[1]s > 95`, s),
			`The database on {{ $labels.machine }} fills {{ printf "%.0f" $value }} % of its quota.`, spaceAction),
		alert("EtcdExcessiveDatabaseGrowth", warning, "10m",
			fmt.Sprintf(`predict_linear(etcd_mvcc_db_total_size_in_bytes%[1]s[4h], 4 * 60 * 60) > `+
				`etcd_server_quota_backend_bytes%[1]s`, s),
			"The database on {{ $labels.machine }} will reach its quota within four hours.", spaceAction),
		alert("EtcdDatabaseHighFragmentationRatio", warning, "10m",
			fmt.Sprintf(`etcd_mvcc_db_total_size_in_use_in_bytes%[1]s / etcd_mvcc_db_total_size_in_bytes%[1]s < 0.5 and `+
				`etcd_mvcc_db_total_size_in_use_in_bytes%[1]s > 104857600`, s),
			"Less than half of the database on {{ $labels.machine }} is in use.",
			"Set maintenance of kube_etcd_member, which defragments one member at a time, or invoke the action "+
				"kube_etcd_defragment (terraform apply -invoke)."),
	}
}
