package readiness

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestJudge(t *testing.T) {
	judgeAll(t, []judged{
		{"etcd-voters", "two", func(e *Evidence) { e.Etcd.Voters, e.Etcd.Healthy = 2, 2 }, Fail, "2 voters"},
		{"etcd-voters", "four", func(e *Evidence) { e.Etcd.Voters, e.Etcd.Healthy = 4, 4 }, Warn, "even"},
		{"etcd-voters", "one is down", func(e *Evidence) { e.Etcd.Healthy = 2 }, Warn, "2 of them healthy"},
		{
			"etcd-voters", "silent", func(e *Evidence) { e.Etcd = Etcd{Unread: "no member answers"} }, Unknown,
			"no member answers",
		},

		{"api-servers", "one", func(e *Evidence) { e.Endpoint.InRotation = []string{"cp1"} }, Fail, "1 API servers"},
		{
			"api-servers", "two", func(e *Evidence) { e.Endpoint.InRotation = []string{"cp1", "cp2"} }, Warn,
			"2 API servers",
		},
		{"api-servers", "one balancer", func(e *Evidence) { e.Endpoint.Balancers = 1 }, Warn, "1 balancers"},
		{"api-servers", "nobody holds it", func(e *Evidence) { e.Endpoint.Holders = nil }, Warn, "0 of these have"},
		{
			"api-servers", "a silent balancer", func(e *Evidence) { e.Endpoint.Unread = []string{"cp2"} }, Warn,
			"cp2 could not",
		},
		{
			"api-servers", "silent balancers", func(e *Evidence) { e.Endpoint.Unread = []string{"cp1", "cp2", "cp3"} }, Unknown,
			"no balancer",
		},

		{
			"api-servers", "external", of("external"), Pass,
			"3 API servers ready behind the balancer 10.0.0.100, which answers",
		},
		{"api-servers", "dns", of("dns"), Pass, "3 API servers ready with a record of the name 10.0.0.100, which answers"},
		{"api-servers", "bgp", of("bgp"), Pass, "3 API servers ready that announce 10.0.0.100, which answers"},
		{
			"api-servers", "kube_vip", of("kube_vip"), Pass,
			"3 API servers ready where kube-vip can give the address 10.0.0.100, which answers",
		},
		{
			"api-servers", "kube_vip by BGP", func(e *Evidence) { of("kube_vip")(e); e.Endpoint.Announced = true }, Pass,
			"3 API servers ready where kube-vip announces 10.0.0.100, which answers",
		},
		{
			"api-servers", "external, silent", func(e *Evidence) {
				of("external")(e)
				e.Endpoint.Silence = "connection refused"
			}, Fail, "which does not answer: connection refused",
		},
		{
			"api-servers", "dns, two", func(e *Evidence) { of("dns")(e); e.Endpoint.InRotation = []string{"cp1", "cp2"} }, Warn,
			"2 API servers",
		},
		{
			"api-servers", "bgp, one", func(e *Evidence) { of("bgp")(e); e.Endpoint.InRotation = []string{"cp1"} }, Fail,
			"1 API servers",
		},

		{"encryption", "in the clear", func(e *Evidence) { e.Encryption = Encryption{} }, Fail, "unencrypted"},
		{"encryption", "identity", func(e *Evidence) { e.Encryption.Provider = "identity" }, Fail, "unencrypted"},
		{
			"encryption", "not of secrets", func(e *Evidence) { e.Encryption.Resources = []string{"configmaps"} }, Fail,
			"secrets are not encrypted",
		},
		{"encryption", "one server without", func(e *Evidence) {
			set(e.Replicas[2].APIServer.Flags, "encryption-provider-config", "-")
		}, Fail, "cp3: "},
		{"encryption", "unread", unreadReplica, Unknown, "cp2: it cannot be reached"},

		{"audit", "none", server("audit-log-path", "-"), Fail, "no audit log"},
		{"audit", "no policy", server("audit-policy-file", "-"), Fail, "no audit policy"},
		{"audit", "no exec", file("audit-policy-file", "pods/exec", "pods/log"), Fail, "exec"},
		{
			"audit", "no RBAC", file("audit-policy-file", "{group: rbac.authorization.k8s.io}", "{group: apps}"), Fail,
			"RBAC",
		},
		{"audit", "some Secrets", file("audit-policy-file", "resources: [secrets, configmaps]",
			"resources: [secrets], resourceNames: [a]"), Fail, "Secrets"},
		{"audit", "of one namespace", file("audit-policy-file", "  - level: Metadata\n",
			"  - level: Metadata\n    namespaces: [a]\n"), Fail, "Secrets"},
		{"audit", "dropped before", file("audit-policy-file", "rules:", "rules:\n  - level: None"), Fail, "exec"},
		{
			"audit", "with bodies", file("audit-policy-file", "  - level: Metadata\n", "  - level: RequestResponse\n"), Warn,
			"content of Secrets",
		},
		{"audit", "of everything", file("audit-policy-file", goodPolicy, "rules: [{level: Metadata}]"), Pass, "covers"},
		{"audit", "by a group of all", file("audit-policy-file", goodPolicy,
			`rules: [{level: Metadata, userGroups: ["system:authenticated"]}]`), Pass, "covers"},
		{"audit", "unreadable", noFile("audit-policy-file"), Unknown, "/policy.yaml"},
		{"audit", "unread", unreadReplica, Unknown, "cp2"},

		{
			"certificates", "ending", func(e *Evidence) { e.Certificates[0].End = now.AddDate(0, 0, 29) }, Fail,
			"replica cp1 on 2026-12-21",
		},
		{
			"certificates", "signed elsewhere", func(e *Evidence) { e.SignedOutside = []string{"kubernetes"} }, Warn,
			"signer",
		},
		{"certificates", "unread", unreadMember, Unknown, "cp2"},
		{
			"certificates", "unreadable", func(e *Evidence) { e.CertificatesUnread = []string{"replica cp1: /a.crt"} }, Unknown,
			"replica cp1: /a.crt",
		},
		{"certificates", "only unreadable", func(e *Evidence) {
			e.Certificates, e.CertificatesUnread = nil, []string{"replica cp1: /a.crt"}
		}, Unknown, "replica cp1: /a.crt"},
		{"certificates", "none", func(e *Evidence) { e.Certificates = nil }, Unknown, "no certificate"},

		{
			"snapshots", "scheduled", scheduled(func([]*Scheduled) {}), Pass,
			"the last uploaded snapshot is that of 2026-11-22T11:00:01Z from cp2",
		},
		{"snapshots", "scheduled, no upload", scheduled(func(s []*Scheduled) {
			s[0].Uploads, s[1].Uploads, s[2].Uploads = false, false, false
		}), Warn, "stay on the machines"},
		{"snapshots", "scheduled, nothing sent", scheduled(func(s []*Scheduled) {
			s[0].Sent, s[1].Sent = time.Time{}, time.Time{}
		}), Warn, "no snapshot has been uploaded yet"},
		{
			"snapshots", "scheduled, failed", scheduled(func(s []*Scheduled) { s[2].Failed = true }), Warn,
			"last run failed on cp3",
		},
		{
			"snapshots", "scheduled, stopped", scheduled(func(s []*Scheduled) { s[2].Next = time.Time{} }), Warn,
			"not running on cp3",
		},
		{"snapshots", "scheduled, not everywhere", func(e *Evidence) {
			scheduled(func([]*Scheduled) {})(e)
			e.Members[0].Scheduled = nil
		}, Warn, "not running on cp1"},
		{
			"snapshots", "never restored", func(e *Evidence) { e.Drill = nil }, Warn,
			"no restore drill is recorded (kube_etcd_restore_drill), so whether the uploaded",
		},
		{
			"snapshots", "restored, but not compared", func(e *Evidence) { e.Drill.Compared = false }, Warn,
			"succeeded in 0.0 s with a snapshot that was 0s old, but was not compared with the live cluster, because that was " +
				"restored since, or no API server answered",
		},
		{
			"snapshots", "restored", func(e *Evidence) {
				e.Drill = &Drill{
					Ended: now.Add(-30 * 24 * time.Hour), Succeeded: true, RTO: 12500 * time.Millisecond, RPO: time.Hour,
					Compared: true,
				}
			}, Pass, "2026-10-23T12:00:00Z succeeded in 12.5 s with a snapshot that was 1h0m0s old",
		},
		{"snapshots", "restored long ago", func(e *Evidence) {
			e.Drill = &Drill{Ended: now.Add(-30*24*time.Hour - time.Second), Succeeded: true}
		}, Warn, "more than 30 days ago"},
		{"snapshots", "restored tomorrow", func(e *Evidence) {
			e.Drill = &Drill{Ended: now.Add(5*time.Minute + time.Second), Succeeded: true}
		}, Unknown, "in the future"},
		{"snapshots", "restored by a clock that is ahead", func(e *Evidence) {
			e.Drill = &Drill{Ended: now.Add(5 * time.Minute), Succeeded: true, Compared: true}
		}, Pass, "succeeded"},
		{"snapshots", "not restorable", func(e *Evidence) {
			e.Drill = &Drill{Ended: now.Add(-time.Hour), Problem: "it is corrupt"}
		}, Fail, "failed: it is corrupt"},
		{"snapshots", "restored, but not saved any more", func(e *Evidence) {
			scheduled(func(s []*Scheduled) { s[2].Failed = true })(e)
			e.Drill = &Drill{Ended: now.Add(-time.Hour), Succeeded: true}
		}, Warn, "last run failed on cp3"},
		{
			"etcd-disk", "shared and slow", eachMember(func(m *Member) { m.OwnDisk, m.Fsync = false, 80*time.Millisecond }),
			Fail, "root file system; 99 % of its fsyncs take up to 80ms",
		},
		{
			"etcd-disk", "a volume", eachMember(func(m *Member) { m.Volume = m.Disk }), Pass,
			"on a disk of its own that moves with it",
		},
		{
			"etcd-disk", "not on its volume", eachMember(func(m *Member) { m.Volume = "/srv/other" }), Fail,
			"not on its volume, which should be mounted at /srv/other",
		},
		{"etcd-disk", "shared", eachMember(func(m *Member) { m.OwnDisk = false }), Warn, "root file system"},
		{"etcd-disk", "slow", func(e *Evidence) { e.Members[2].Fsync = 16 * time.Millisecond }, Warn, "cp3: "},
		{
			"etcd-disk", "in memory", func(e *Evidence) { e.Members[1].Memory = true }, Fail,
			"cp2: its data is on an in-memory file system, /var/lib/etcd",
		},
		{"etcd-disk", "not measured", eachMember(func(m *Member) { m.Fsyncs = 0 }), Unknown, "no fsync"},
		{
			"etcd-disk", "no metrics", eachMember(func(m *Member) { m.FsyncUnread = "connection refused" }), Unknown,
			"connection refused",
		},
		{
			"etcd-disk", "no data", eachMember(func(m *Member) { m.OwnDisk, m.Disk = false, "" }), Unknown,
			"could not be determined",
		},
		{"etcd-disk", "unread", unreadMember, Unknown, "cp2"},

		{"request-limits", "off", func(e *Evidence) {
			server("enable-priority-and-fairness", "false")(e)
			server("max-requests-inflight", "0")(e)
		}, Fail, "not limited"},
		{"request-limits", "fairness off", server("enable-priority-and-fairness", "false"), Warn, "is disabled"},
		{"request-limits", "unread", unreadReplica, Unknown, "cp2"},

		{"etcd-quota", "full", func(e *Evidence) { e.Members[0].DBSize = 7 << 30 }, Fail, "88 % of 8.0 GiB"},
		{"etcd-quota", "small", eachMember(func(m *Member) { m.Quota = 2 << 30 }), Warn, "50 % of 2.0 GiB"},
		{"etcd-quota", "none", eachMember(func(m *Member) { m.Quota = -1 }), Warn, "no quota"},
		{"etcd-quota", "not told", eachMember(func(m *Member) { m.Quota = 0 }), Unknown, "is unknown"},
		{"etcd-quota", "unread", unreadMember, Unknown, "cp2"},

		{"authorization", "all allowed", server("authorization-mode", "AlwaysAllow"), Fail, "AlwaysAllow"},
		{"authorization", "default", server("authorization-mode", "-"), Fail, "all requests are allowed"},
		{"authorization", "no Node", server("authorization-mode", "RBAC"), Fail, "modes: RBAC"},
		{"authorization", "more", server("authorization-mode", "Node,RBAC,Webhook"), Warn, "Webhook"},
		{"authorization", "structured", func(e *Evidence) {
			server("authorization-config", "/authorization.yaml")(e)
			for _, r := range e.Replicas {
				r.Files["authorization-config"] = "authorizers: [{type: Node}, {type: RBAC}]"
			}
		}, Pass, "modes: Node,RBAC"},
		{
			"authorization", "unreadable", server("authorization-config", "/authorization.yaml"), Unknown,
			"/authorization.yaml",
		},

		{"admission", "no NodeRestriction", server("enable-admission-plugins", "-"), Fail, "NodeRestriction"},
		{
			"admission", "PodSecurity off", server("disable-admission-plugins", "PodSecurity"), Fail,
			"disabled: PodSecurity",
		},
		{
			"admission", "everything admitted", server("enable-admission-plugins", "NodeRestriction,AlwaysAdmit"), Warn,
			"AlwaysAdmit",
		},
		{"admission", "unread", unreadReplica, Unknown, "cp2"},

		{
			"anonymous", "default", server("authentication-config", "-"), Fail,
			"open: /healthz, /livez, /readyz, /version and all that RBAC",
		},
		{"anonymous", "off by flag", func(e *Evidence) {
			server("authentication-config", "-")(e)
			server("anonymous-auth", "false")(e)
		}, Pass, "no path is open"},
		{
			"anonymous", "off by file", file("authentication-config", "enabled: true", "enabled: false"), Pass,
			"no path is open",
		},
		{
			"anonymous", "unconditional", file("authentication-config",
				", conditions: [{path: /livez}, {path: /readyz}, {path: /healthz}]", ""), Fail,
			"open: /healthz, /livez, /readyz, /version and all that RBAC",
		},
		{
			"anonymous", "one path more", file("authentication-config", "{path: /livez}", "{path: /version}"), Warn,
			"/version",
		},
		{"anonymous", "unreadable", noFile("authentication-config"), Unknown, "/authentication.yaml"},

		{"insecure-port", "an old server", server("insecure-port", "8080"), Fail, "--insecure-port=8080"},
		{"insecure-port", "turned off", server("insecure-port", "0"), Pass, "none"},
		{
			"insecure-port", "etcd in the clear", member("listen-client-urls", "http://10.0.0.11:2379"), Fail,
			"http://10.0.0.11:2379",
		},
		{"insecure-port", "unread", unreadMember, Unknown, "cp2"},
		{
			"insecure-port", "a stopped scheduler", func(e *Evidence) { e.Replicas[0].Scheduler = Process{} }, Unknown,
			"cp1: kube-scheduler is not running",
		},
		{"insecure-port", "a stopped scheduler, and an old server", func(e *Evidence) {
			e.Replicas[0].Scheduler = Process{}
			server("insecure-port", "8080")(e)
		}, Fail, "--insecure-port=8080"},
		{
			"insecure-port", "stopped etcd", eachMember(func(m *Member) { m.Process = Process{} }), Unknown,
			"etcd is not running",
		},
		{"insecure-port", "etcd with a file", member("config-file", "/etc/etcd.yaml"), Unknown, "/etc/etcd.yaml"},

		{
			"profiling", "stopped", func(e *Evidence) { e.Replicas[0].Scheduler = Process{} }, Unknown,
			"kube-scheduler is not running",
		},

		{"etcd-tls", "no peer authentication", member("peer-client-cert-auth", "-"), Fail, "--peer-client-cert-auth"},
		{"etcd-tls", "no certificate", member("cert-file", "-"), Fail, "--cert-file"},
		{"etcd-tls", "stopped", eachMember(func(m *Member) { m.Process = Process{} }), Unknown, "is not running"},

		{"taints", "open", func(e *Evidence) { e.Nodes[0].Taints = nil }, Fail, "cp1"},
		{"taints", "not for good", func(e *Evidence) {
			e.Nodes[0].Taints = []string{"node.kubernetes.io/not-ready:NoSchedule"}
		}, Fail, "cp1"},
		{"taints", "no nodes", func(e *Evidence) { e.Nodes = nil }, Pass, "none of these"},
		{"taints", "other addresses", func(e *Evidence) {
			e.Nodes[0] = Node{Name: "cp1", Addresses: []string{"192.0.2.11"}}
		}, Fail, "cp1"},
		{"taints", "other addresses and names", func(e *Evidence) {
			e.Nodes[0] = Node{Name: "cp1.example.com", Addresses: []string{"192.0.2.11"}, ControlPlane: true}
		}, Fail, "cp1.example.com"},
		{"taints", "a kubelet without a node", func(e *Evidence) {
			e.Nodes, e.Replicas[0].Kubelet = e.Nodes[1:], true
		}, Unknown, "the kubelet on cp1"},
		{"taints", "no nodes, a machine is not observed", func(e *Evidence) {
			e.Nodes = nil
			unreadReplica(e)
		}, Unknown, "cp2"},
		{"taints", "unread", func(e *Evidence) { e.NodesUnread = "no API server answers" }, Unknown, "no API server"},

		{"resources", "unread", unreadMember, Unknown, "cp2"},

		{"compaction", "off", server("etcd-compaction-interval", "0"), Fail, "compaction by the API server is disabled"},
		{"compaction", "by itself", func(e *Evidence) {
			server("etcd-compaction-interval", "0s")(e)
			member("auto-compaction-retention", "1h")(e)
		}, Pass, "compacts automatically"},
		{"compaction", "unread", unreadReplica, Unknown, "cp2"},

		{"oidc", "none", file("authentication-config", "jwt: [{issuer: {url: https://login.example.org, audiences: [kube]}}]",
			"jwt: []"), Fail, "certificates"},
		{"oidc", "by flags", func(e *Evidence) {
			server("authentication-config", "-")(e)
			server("oidc-issuer-url", "https://login.example.org")(e)
		}, Pass, "https://login.example.org"},
		{"oidc", "unreadable", noFile("authentication-config"), Unknown, "/authentication.yaml"},

		{
			"metrics", "no port", func(e *Evidence) { e.Replicas[0].Scheduler.Flags["secure-port"] = "0" }, Fail,
			"kube-scheduler has no port",
		},
		{
			"metrics", "etcd silent", eachMember(func(m *Member) { m.FsyncUnread = "connection refused" }), Unknown,
			"connection refused",
		},
	})
}

// TestReady checks a control plane that passes every item, and one of which nothing is known.
func TestReady(t *testing.T) {
	findings := Judge(ready())
	if len(findings) != 20 || Score(findings) != 20 || !Ready(findings) {
		t.Errorf("%d of %d: %v", Score(findings), len(findings), findings)
	}
	ids := map[string]bool{}
	for _, f := range findings {
		if ids[f.ID] || f.Title == "" || f.Evidence == "" {
			t.Errorf("item %+v", f)
		}
		ids[f.ID] = true
	}
	blind := Judge(Evidence{
		Now: now, Etcd: Etcd{Unread: "silence"}, ReplicasUnread: "silence", NodesUnread: "silence",
		Encryption: Encryption{Unread: "silence"},
	})
	for _, f := range blind {
		if f.Status != Unknown {
			t.Errorf("of nothing: %s", f)
		}
	}
	if Score(blind) != 0 || Ready(blind) {
		t.Error("nothing known is ready")
	}
}

// TestAccepted: a warning, and what machines do not show, count unless they are accepted. A failure
// and what could not be observed always count.
func TestAccepted(t *testing.T) {
	for name, c := range map[string]struct {
		change     func(*Evidence)
		id         string
		acceptable bool
	}{
		"a warning":         {func(e *Evidence) { e.Etcd.Voters, e.Etcd.Healthy = 4, 4 }, "etcd-voters", true},
		"not shown":         {func(e *Evidence) { e.Alerts = Alerts{} }, "certificates", true},
		"not observed":      {func(e *Evidence) { e.Alerts = Alerts{Unread: "forbidden"} }, "certificates", false},
		"a failure":         {func(e *Evidence) { e.Etcd.Voters, e.Etcd.Healthy = 2, 2 }, "etcd-voters", false},
		"also not observed": {func(e *Evidence) { e.Alerts = Alerts{}; unreadMember(e) }, "certificates", false},
	} {
		t.Run(name, func(t *testing.T) {
			e := ready()
			c.change(&e)
			if findings := Judge(e); Ready(findings) {
				t.Errorf("ready with %v", findings)
			}
			if Ready(Judge(e, "oidc")) {
				t.Error("another item is accepted, and it is ready")
			}
			others := 0
			accepted := append(IDs(), "none")
			for _, f := range Judge(e, accepted...) {
				if f.Status == Pass && f.Accepted {
					t.Errorf("%s passes and is accepted", f)
				}
				if f.ID != c.id && f.Status != Pass && !f.Accepted {
					others++
				}
			}
			if got := Ready(Judge(e, accepted...)); got != (c.acceptable && others == 0) {
				t.Errorf("ready with it accepted: %v", got)
			}
		})
	}
}

func TestTogether(t *testing.T) {
	verdicts := map[string]verdict{
		"a": pass("well"), "b": warn("so so"), "c": unknown("who knows"), "d": fail("bad"),
		"e": pass("well"),
	}
	for names, want := range map[string]verdict{
		"a e":     {Pass, "well"},
		"a b":     {Warn, "a: well; b: so so"},
		"b c":     {Unknown, "b: so so; c: who knows"},
		"c d e a": {Fail, "c: who knows; d: bad; e, a: well"},
	} {
		all := strings.Fields(names)
		if got := combine("thing", all, func(i int) verdict { return verdicts[all[i]] }); got != want {
			t.Errorf("%s: %v, want %v", names, got, want)
		}
	}
}

// of returns a change to an endpoint of a kind without balancers of this control plane.
func of(kind string) func(*Evidence) {
	return func(e *Evidence) { e.Endpoint.Kind, e.Endpoint.Balancers, e.Endpoint.Holders = kind, 0, nil }
}

// TestServerWords: title and remedy name the kind of the endpoint, and its argument.
func TestServerWords(t *testing.T) {
	for _, test := range []struct {
		kind      string
		announced bool
		title     string
		argument  string
	}{
		{"", false, "behind a virtual IP", "haproxy.hosts of"},
		{"haproxy", false, "behind a virtual IP", "haproxy.hosts of"},
		{"external", false, "behind a balancer", "external.targets, and with the balancer, of"},
		{"dns", false, "at a DNS name", "dns.targets of"},
		{"bgp", false, "that announce one address", "bgp.targets of"},
		{"kube_vip", false, "to one of which kube-vip gives the address", "kube_vip.targets of"},
		{"kube_vip", true, "whose address kube-vip announces", "kube_vip.targets of"},
	} {
		e := ready()
		e.Endpoint.Kind, e.Endpoint.Announced, e.Endpoint.InRotation = test.kind, test.announced, []string{"cp1"}
		at := slices.IndexFunc(Judge(e), func(f Finding) bool { return f.ID == apiServers })
		f := Judge(e)[at]
		if f.Title != "Three or more API servers "+test.title || !strings.Contains(f.Remedy, test.argument+" the kube_") {
			t.Errorf("%s: title %q, remedy %q", test.kind, f.Title, f.Remedy)
		}
	}
}

// TestDrillWithoutUploads: where the provider uploads no snapshots, another system may save and restore them.
func TestDrillWithoutUploads(t *testing.T) {
	for name, change := range map[string]func(*Member){
		"no timer":   func(m *Member) { m.Scheduled = nil },
		"no uploads": func(m *Member) { m.Scheduled = &Scheduled{} },
	} {
		e := ready()
		e.Drill = nil
		eachMember(change)(&e)
		if v := judgeDrill(e); v.status != Pass || v.evidence != "no restore drill is recorded (kube_etcd_restore_drill)" {
			t.Errorf("%s: %+v", name, v)
		}
	}
}
