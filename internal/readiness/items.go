package readiness

// item is one line of the review.
type item struct {
	id, title string
	judge     func(Evidence) verdict
	remedy    string // refers to the provider's own attribute if there is one
}

var items = []item{
	{"etcd-voters", "An odd number of etcd voters, three or more", judgeVoters, "add kube_etcd_member until there are three or five, each on a machine of its own"},
	{"api-servers", "Three or more API servers behind a virtual IP", judgeServers, "add kube_control_plane_replica until there are three, and list two or more machines in haproxy.hosts of the kube_control_plane_endpoint"},
	{"encryption", "Secrets are encrypted at rest", judgeEncryption, "set encryption on the kube_pki_bundle, and take its three stages (rotation.encryption)"},
	{"audit", "Audit log whose policy covers Secrets, RBAC and exec", judgeAudit, "audit of the kube_control_plane_replica: leave it on, and let audit.policy log Secrets at Metadata, changes of RBAC, and exec"},
	{"certificates", "Certificates are renewed, none ends within 30 days", judgeCertificates, "apply: what is due is renewed (early_renewal); authorities by rotation of the kube_pki_bundle; what is signed elsewhere by kube_certificate_requests and signed"},
	{"snapshots", "Scheduled etcd snapshots, kept off the machine", judgeSnapshots, "set snapshots, with upload, on every kube_etcd_member; or have a systemd timer of your own on the members' machines save them and copy them elsewhere"},
	{"etcd-disk", "etcd's data on a disk of its own, fsync fast", judgeDisk, "mount a disk of its own (SSD) at data_dir of the kube_etcd_member"},
	{"request-limits", "Requests are limited: priority and fairness is on", judgeRequests, "take enable-priority-and-fairness, max-requests-inflight and max-mutating-requests-inflight out of extra_args.apiserver of the kube_control_plane_replica"},
	{"etcd-quota", "etcd quota of 8 GiB, less than 80 % used", judgeQuota, `quota-backend-bytes = "8589934592" in extra_args of the kube_etcd_member, or its default; what fills the database has to be deleted by its owner`},
	{"authorization", "Authorization by Node and RBAC", judgeAuthorization, "take authorization-mode and authorization-config out of extra_args.apiserver of the kube_control_plane_replica: the default is Node,RBAC"},
	{"admission", "Admission by NodeRestriction, PodSecurity and ResourceQuota", judgeAdmission, `extra_args.apiserver = { "enable-admission-plugins" = "NodeRestriction" } on the kube_control_plane_replica, and no disable-admission-plugins`},
	{"anonymous", "Anonymous requests off but for the health paths", judgeAnonymous, "authentication of the kube_control_plane_replica: leave it on, with no anonymous_paths"},
	{"insecure-port", "No insecure port", judgeInsecure, "take insecure-port, port and http:// client URLs out of extra_args of the kube_control_plane_replica and kube_etcd_member"},
	{"profiling", "Profiling is off", judgeProfiling, "take profiling and enable-pprof out of extra_args of the kube_control_plane_replica and kube_etcd_member"},
	{"etcd-tls", "etcd peers and clients by TLS, with certificates of their own", judgeEtcdTLS, "take the certificate flags out of extra_args of the kube_etcd_member"},
	{"taints", "Control-plane machines that are nodes are tainted", judgeTaints, "kubectl taint nodes NAME node-role.kubernetes.io/control-plane:NoSchedule, or register-with-taints in the kubelet's configuration"},
	{"resources", "Resource limits on the components", judgeResources, "resources on the kube_control_plane_replica and the kube_etcd_member"},
	{"compaction", "etcd's history is compacted", judgeCompaction, "take etcd-compaction-interval out of extra_args.apiserver of the kube_control_plane_replica"},
	{"oidc", "People log in by OIDC or structured authentication", judgeOIDC, "authentication.jwt of the kube_control_plane_replica"},
	{"metrics", "Metrics can be scraped", judgeMetrics, `bring back what does not serve them; extra_args = { "listen-metrics-urls" = … } on the kube_etcd_member, and secure-port of controller-manager and scheduler as it is by default`},
}
