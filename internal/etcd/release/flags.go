package release

import "strings"

// The flags that the server of each minor version accepts. They were read from
// server/embed/config.go and server/etcdmain/config.go of 3.5.35, 3.6.16 and 3.7.3, from
// the calls that define them. A test compares them with the programs themselves.
var (
	ReadFrom = map[int]string{5: "3.5.35", 6: "3.6.16", 7: "3.7.3"}

	everyMinor = strings.Fields(`
		advertise-client-urls auth-token auth-token-ttl auto-compaction-mode auto-compaction-retention auto-tls
		backend-batch-interval backend-batch-limit backend-bbolt-freelist-type bcrypt-cost cert-file cipher-suites
		client-cert-allowed-hostname client-cert-auth client-cert-file client-crl-file client-key-file config-file cors
		data-dir discovery-fallback discovery-srv discovery-srv-name election-timeout enable-grpc-gateway
		enable-log-rotation enable-pprof force-new-cluster grpc-keepalive-interval grpc-keepalive-min-time
		grpc-keepalive-timeout heartbeat-interval host-whitelist initial-advertise-peer-urls initial-cluster
		initial-cluster-state initial-cluster-token initial-election-tick-advance key-file listen-client-http-urls
		listen-client-urls listen-metrics-urls listen-peer-urls log-level log-outputs log-rotation-config-json logger
		max-concurrent-streams max-request-bytes max-snapshots max-txn-ops max-wals metrics name peer-auto-tls
		peer-cert-allowed-cn peer-cert-allowed-hostname peer-cert-file peer-client-cert-auth peer-client-cert-file
		peer-client-key-file peer-crl-file peer-key-file peer-trusted-ca-file pre-vote quota-backend-bytes
		raft-read-timeout raft-write-timeout self-signed-cert-validity snapshot-count socket-reuse-address
		socket-reuse-port strict-reconfig-check tls-max-version tls-min-version trusted-ca-file unsafe-no-fsync
		v2-deprecation version wal-dir`)

	since6 = strings.Fields(`
		bootstrap-defrag-threshold-megabytes compact-hash-check-time compaction-batch-limit compaction-sleep-interval
		corrupt-check-time discovery-cacert discovery-cert discovery-dial-timeout discovery-endpoints
		discovery-insecure-skip-tls-verify discovery-insecure-transport discovery-keepalive-time
		discovery-keepalive-timeout discovery-key discovery-password discovery-request-timeout discovery-token
		discovery-user distributed-tracing-address distributed-tracing-instance-id distributed-tracing-sampling-rate
		distributed-tracing-service-name downgrade-check-time enable-distributed-tracing feature-gates log-format
		max-learners memory-mlock peer-skip-client-san-verification snapshot-catchup-entries warning-apply-duration
		warning-unary-request-duration watch-progress-notify-interval`)

	// gatesSince contains the feature gates, and the minor version that added each; so far
	// none was removed or locked (server/features/etcd_features.go).
	gatesSince = map[string]int{
		"AllAlpha": 6, "AllBeta": 6,
		"CompactHashCheck": 6, "InitialCorruptCheck": 6, "LeaseCheckpoint": 6, "LeaseCheckpointPersist": 6,
		"SetMemberLocalAddr": 6, "StopGRPCServiceOnDefrag": 6, "TxnModeWriteWithSharedBuffer": 6,
		"FastLeaseKeepAlive": 7, "PriorityRequest": 7,
	}
)

// removed is a flag that a minor version has removed or renamed.
type removed struct {
	flag    string
	first   int    // minor version that has it, of those known here
	until   int    // first minor version that no longer has it
	instead string // the flag that replaces it, with the same values
	gate    string // or the feature gate
	note    string // or what to do
}

const (
	noV2          = "the v2 API and everything that this flag affected were removed; remove the argument"
	noProxy       = "the v2 proxy was removed; remove the argument, or run \"etcd grpc-proxy\" as a separate service"
	noV2Discovery = "the v2 discovery service was removed; the provider bootstraps the cluster"
)

// removals contains the removed flags. 3.6 removed what served the v2 API
// (CHANGELOG-3.6.md). It has each experimental flag under both names (deprecatedFlags in
// etcdmain/config.go, experimentalFlagMigrationMap and ExperimentalFlagToFeatureMap), and
// 3.7 only under the new one ("Removed all deprecated experimental flags", "Removed
// v2discovery": CHANGELOG-3.7.md).
var removals = []removed{
	{flag: "enable-v2", first: 5, until: 6, note: noV2},
	{flag: "experimental-enable-v2v3", first: 5, until: 6, note: noV2},
	{flag: "proxy", first: 5, until: 6, note: noProxy},
	{flag: "proxy-dial-timeout", first: 5, until: 6, note: noProxy},
	{flag: "proxy-failure-wait", first: 5, until: 6, note: noProxy},
	{flag: "proxy-read-timeout", first: 5, until: 6, note: noProxy},
	{flag: "proxy-refresh-interval", first: 5, until: 6, note: noProxy},
	{flag: "proxy-write-timeout", first: 5, until: 6, note: noProxy},
	{flag: "discovery", first: 5, until: 7, note: noV2Discovery},
	{flag: "discovery-proxy", first: 5, until: 7, note: noV2Discovery},
	{
		flag: "experimental-bootstrap-defrag-threshold-megabytes", first: 5, until: 7,
		instead: "bootstrap-defrag-threshold-megabytes",
	},
	{flag: "experimental-compact-hash-check-enabled", first: 5, until: 7, gate: "CompactHashCheck"},
	{flag: "experimental-compact-hash-check-time", first: 5, until: 7, instead: "compact-hash-check-time"},
	{flag: "experimental-compaction-batch-limit", first: 5, until: 7, instead: "compaction-batch-limit"},
	{flag: "experimental-compaction-sleep-interval", first: 5, until: 7, instead: "compaction-sleep-interval"},
	{flag: "experimental-corrupt-check-time", first: 5, until: 7, instead: "corrupt-check-time"},
	{flag: "experimental-distributed-tracing-address", first: 5, until: 7, instead: "distributed-tracing-address"},
	{flag: "experimental-distributed-tracing-instance-id", first: 5, until: 7, instead: "distributed-tracing-instance-id"},
	{
		flag: "experimental-distributed-tracing-sampling-rate", first: 5, until: 7,
		instead: "distributed-tracing-sampling-rate",
	},
	{
		flag: "experimental-distributed-tracing-service-name", first: 5, until: 7,
		instead: "distributed-tracing-service-name",
	},
	{flag: "experimental-downgrade-check-time", first: 5, until: 7, instead: "downgrade-check-time"},
	{flag: "experimental-enable-distributed-tracing", first: 5, until: 7, instead: "enable-distributed-tracing"},
	{flag: "experimental-enable-lease-checkpoint", first: 5, until: 7, gate: "LeaseCheckpoint"},
	{flag: "experimental-enable-lease-checkpoint-persist", first: 5, until: 7, gate: "LeaseCheckpointPersist"},
	{flag: "experimental-initial-corrupt-check", first: 5, until: 7, gate: "InitialCorruptCheck"},
	{flag: "experimental-memory-mlock", first: 5, until: 7, instead: "memory-mlock"},
	{
		flag: "experimental-peer-skip-client-san-verification", first: 5, until: 7,
		instead: "peer-skip-client-san-verification",
	},
	{flag: "experimental-snapshot-catchup-entries", first: 5, until: 7, instead: "snapshot-catchup-entries"},
	{flag: "experimental-stop-grpc-service-on-defrag", first: 5, until: 7, gate: "StopGRPCServiceOnDefrag"},
	{flag: "experimental-txn-mode-write-with-shared-buffer", first: 5, until: 7, gate: "TxnModeWriteWithSharedBuffer"},
	{flag: "experimental-warning-apply-duration", first: 5, until: 7, instead: "warning-apply-duration"},
	{flag: "experimental-warning-unary-request-duration", first: 6, until: 7, instead: "warning-unary-request-duration"},
	{flag: "experimental-watch-progress-notify-interval", first: 5, until: 7, instead: "watch-progress-notify-interval"},
}
