package readiness

// item is one line of the review.
type item struct {
	id, title string
	judge     func(Evidence) verdict
	remedy    string // refers to the provider's own attribute if there is one
}

// apiServers is the item whose words depend on the kind of the endpoint.
const apiServers = "api-servers"

// words returns the title and the remedy of an item.
func (i item) words(e Evidence) (title, remedy string) {
	if i.id == apiServers {
		title, remedy = serverWords(e.Endpoint)
		return title, "add kube_control_plane_replica resources until there are three, and list " + remedy +
			" of the kube_control_plane_endpoint"
	}
	return i.title, i.remedy
}

var items = []item{
	{"etcd-voters", "An odd number of etcd voters, three or more", judgeVoters, "add kube_etcd_member resources " +
		"until there are three or five, each on a separate machine"},
	{apiServers, "", judgeServers, ""},
	{"encryption", "Secrets are encrypted at rest, and none is stored in the clear", judgeEncryption, "set " +
		"encryption on the kube_pki_bundle, and apply its three stages (rotation.encryption), the second of which " +
		"rewrites what is stored"},
	{"audit", "Audit log with a policy that covers Secrets, RBAC and exec", judgeAudit, "leave audit of the " +
		"kube_control_plane_replica enabled, and let audit.policy log every read and change of Secrets at level " +
		"Metadata, every read and change of RBAC, and exec by get and create, for all users and namespaces"},
	{
		"certificates", "Certificates are renewed, none expires within 30 days, and an alert is there", judgeCertificates,
		"apply to renew certificates that are due (early_renewal); rotate CAs with rotation of the kube_pki_bundle; " +
			"have externally signed certificates signed again with kube_certificate_requests and signed; load the " +
			"alerts of provider::kube::alert_rules, and accept this item if your Prometheus is outside of the cluster",
	},
	{"snapshots", "etcd snapshots at least hourly, stored off the machine", judgeSnapshots, "set snapshots, with " +
		"upload or s3, on every kube_etcd_member, and read journalctl -u etcd-snapshot.service on the machine of the " +
		"leader; run kube_etcd_restore_drill, and correct what it finds; accept this item if another system saves " +
		"snapshots and tells somebody when it fails"},
	{"etcd-disk", "etcd data on a disk of its own with fast fsync", judgeDisk, "mount a separate disk (SSD), not a " +
		"partition of the system's, at data_dir of the kube_etcd_member"},
	{"request-limits", "API priority and fairness limits requests", judgeRequests, "remove " +
		"enable-priority-and-fairness, max-requests-inflight and max-mutating-requests-inflight from " +
		"extra_args.apiserver of the kube_control_plane_replica"},
	{
		"etcd-quota", "etcd quota of 8 GiB, less than 80 % used", judgeQuota,
		`set quota-backend-bytes = "8589934592" in extra_args of the kube_etcd_member, or use its default; ` +
			`delete the objects that fill the database`,
	},
	{"authorization", "Authorization by Node and RBAC", judgeAuthorization, "remove authorization-mode and " +
		"authorization-config from extra_args.apiserver of the kube_control_plane_replica: the default is " +
		"Node,RBAC"},
	{
		"admission", "Admission by NodeRestriction, PodSecurity and ResourceQuota", judgeAdmission,
		`set extra_args.apiserver = { "enable-admission-plugins" = "NodeRestriction" } ` +
			`on the kube_control_plane_replica, without disable-admission-plugins`,
	},
	{
		"anonymous", "Anonymous requests are disabled except for the health paths", judgeAnonymous,
		"leave authentication of the kube_control_plane_replica at its default, without anonymous_paths",
	},
	{"insecure-port", "No insecure port", judgeInsecure, "remove insecure-port, port and http:// client URLs from " +
		"extra_args of the kube_control_plane_replica and kube_etcd_member"},
	{"profiling", "Profiling is disabled", judgeProfiling, "remove profiling and enable-pprof from extra_args of " +
		"the kube_control_plane_replica and kube_etcd_member"},
	{"etcd-tls", "TLS with separate certificates for etcd peers and clients", judgeEtcdTLS, "remove the " +
		"certificate flags from extra_args of the kube_etcd_member, and apply"},
	{"taints", "Control-plane machines that are nodes are tainted", judgeTaints, "run kubectl taint nodes NAME " +
		"node-role.kubernetes.io/control-plane:NoSchedule, or set registerWithTaints in the kubelet's " +
		"configuration"},
	{"resources", "Components have resource limits and reservations", judgeResources, "set a limit " +
		"(memory_max, cpu_quota) and a reservation (memory_min, cpu_weight, io_weight) in resources of the " +
		"kube_control_plane_replica and the kube_etcd_member"},
	{"compaction", "etcd's history is compacted, at least every hour", judgeCompaction, "remove " +
		"etcd-compaction-interval from extra_args.apiserver of the kube_control_plane_replica; read journalctl -u " +
		"kube-apiserver for compactions that fail"},
	{"oidc", "Users authenticate with OIDC or structured authentication", judgeOIDC, "set authentication.jwt of " +
		"the kube_control_plane_replica"},
	{
		"metrics", "The metrics of all components are scraped", judgeMetrics,
		`set metrics.address of the kube_control_plane_replica and of the kube_etcd_member (or its extra_args = { ` +
			`"listen-metrics-urls" = … }), and let Prometheus scrape them (provider::kube::scrape_configs)`,
	},
}
