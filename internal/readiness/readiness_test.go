package readiness

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

const goodPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
  - level: None
    userGroups: ["system:nodes"]
    verbs: [get, list, watch]
  - level: Metadata
    resources: [{group: "", resources: [secrets, configmaps]}]
  - level: RequestResponse
    verbs: [create, update, patch, delete]
    resources: [{group: rbac.authorization.k8s.io}]
  - level: Metadata
    resources: [{group: "", resources: [pods/exec, pods/attach]}]
`

const goodAuthentication = `
apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
anonymous: {enabled: true, conditions: [{path: /livez}, {path: /readyz}, {path: /healthz}]}
jwt: [{issuer: {url: https://login.example.org, audiences: [kube]}}]
`

func running(flags map[string]string) Process {
	return Process{Running: true, Flags: flags, MemoryMax: "4294967296"}
}

// ready returns a control plane that passes every item. The caller may change it.
func ready() Evidence {
	e := Evidence{
		Now:  now,
		Etcd: Etcd{Voters: 3, Healthy: 3},
		Endpoint: Endpoint{
			Address: "10.0.0.100", Balancers: 3, Holders: []string{"cp1"}, InRotation: []string{"cp1", "cp2", "cp3"},
		},
		Encryption:   Encryption{Provider: "secretbox", Resources: []string{"secrets"}},
		Certificates: []Certificate{{"replica cp1", now.AddDate(0, 6, 0)}, {"authority etcd", now.AddDate(10, 0, 0)}},
		Nodes: []Node{
			{
				Name: "cp1", Addresses: []string{"10.0.0.11"},
				Taints: []string{"node-role.kubernetes.io/control-plane:NoSchedule"},
			},
			{Name: "worker", Addresses: []string{"10.0.0.50"}},
		},
	}
	for i := range 3 {
		name, address := fmt.Sprintf("cp%d", i+1), fmt.Sprintf("10.0.0.%d", 11+i)
		e.Members = append(e.Members, Member{
			Name: name, Address: address, DBSize: 1 << 30, Quota: 8 << 30, OwnDisk: true, Disk: "/var/lib/etcd",
			Fsync: 4 * time.Millisecond, Fsyncs: 1000,
			Process: running(map[string]string{
				"cert-file": "/server.crt", "key-file": "/server.key", "trusted-ca-file": "/ca.crt", "client-cert-auth": "true",
				"peer-cert-file": "/peer.crt", "peer-key-file": "/peer.key", "peer-trusted-ca-file": "/ca.crt",
				"peer-client-cert-auth": "true",
				"listen-client-urls":    "https://127.0.0.1:2379,https://10.0.0.11:2379",
				"listen-metrics-urls":   "http://127.0.0.1:2381",
			}),
			Schedules: []Schedule{{Name: "etcd-snapshot.timer", Command: "/bin/sh -c 'etcdctl snapshot save /tmp/s && " +
				"aws s3 cp /tmp/s s3://backup/'", Ran: now.Add(-time.Hour)}},
		})
		e.Replicas = append(e.Replicas, Replica{
			Name: name, Address: address,
			APIServer: running(map[string]string{
				"audit-log-path": "/var/log/kube-apiserver/audit.log", "audit-policy-file": "/policy.yaml",
				"authentication-config": "/authentication.yaml",
				"authorization-mode":    "Node,RBAC", "enable-admission-plugins": "NodeRestriction",
				"encryption-provider-config": "/encryption.yaml", "profiling": "false",
			}),
			ControllerManager: running(map[string]string{"profiling": "false", "bind-address": "127.0.0.1"}),
			Scheduler:         running(map[string]string{"profiling": "false", "bind-address": "127.0.0.1"}),
			Files:             map[string]string{"audit-policy-file": goodPolicy, "authentication-config": goodAuthentication},
		})
	}
	return e
}

// scheduled replaces another timer with the provider's own timer on every machine. The timer of
// cp2 uploaded the last snapshot, that of cp1 one a day before.
func scheduled(change func([]*Scheduled)) func(*Evidence) {
	return func(e *Evidence) {
		var all []*Scheduled
		for i := range e.Members {
			s := &Scheduled{Uploads: true, Ran: now.Add(-time.Hour), Next: now}
			e.Members[i].Schedules, e.Members[i].Scheduled = nil, s
			all = append(all, s)
		}
		all[0].Sent, all[1].Sent = now.Add(time.Second-25*time.Hour), now.Add(time.Second-time.Hour)
		change(all)
	}
}

// server sets a flag of every API server. "-" removes it.
func server(name, value string) func(*Evidence) {
	return func(e *Evidence) {
		for _, r := range e.Replicas {
			set(r.APIServer.Flags, name, value)
		}
	}
}

func member(name, value string) func(*Evidence) {
	return func(e *Evidence) {
		for _, m := range e.Members {
			set(m.Process.Flags, name, value)
		}
	}
}

func set(flags map[string]string, name, value string) {
	if flags[name] = value; value == "-" {
		delete(flags, name)
	}
}

// file replaces text in a file of every API server.
func file(flag, from, to string) func(*Evidence) {
	return func(e *Evidence) {
		for _, r := range e.Replicas {
			r.Files[flag] = strings.Replace(r.Files[flag], from, to, 1)
		}
	}
}

func noFile(flag string) func(*Evidence) {
	return func(e *Evidence) {
		for _, r := range e.Replicas {
			delete(r.Files, flag)
		}
	}
}

func eachMember(change func(m *Member)) func(*Evidence) {
	return func(e *Evidence) {
		for i := range e.Members {
			change(&e.Members[i])
		}
	}
}

func unreadReplica(e *Evidence) { e.Replicas[1] = Replica{Name: "cp2", Unread: "it cannot be reached"} }

func unreadMember(e *Evidence) { e.Members[1] = Member{Name: "cp2", Unread: "it cannot be reached"} }

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		id     string
		name   string
		change func(*Evidence)
		want   Status
		says   string
	}{
		{"etcd-voters", "two", func(e *Evidence) { e.Etcd.Voters, e.Etcd.Healthy = 2, 2 }, Fail, "2 voters"},
		{"etcd-voters", "four", func(e *Evidence) { e.Etcd.Voters, e.Etcd.Healthy = 4, 4 }, Warn, "even"},
		{"etcd-voters", "one is down", func(e *Evidence) { e.Etcd.Healthy = 2 }, Warn, "2 of them healthy"},
		{
			"etcd-voters", "silent", func(e *Evidence) { e.Etcd = Etcd{Unread: "no member answers"} }, Unknown,
			"no member answers",
		},

		{"api-servers", "one", func(e *Evidence) { e.Endpoint.InRotation = []string{"cp1"} }, Fail, "1 API servers"},
		{"api-servers", "two", func(e *Evidence) { e.Endpoint.InRotation = []string{"cp1", "cp2"} }, Warn, "2 API servers"},
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

		{"api-servers", "external", func(e *Evidence) { e.Endpoint.External = true }, Pass, "which answers"},
		{
			"api-servers", "external, silent", func(e *Evidence) {
				e.Endpoint.External, e.Endpoint.Silence = true, "connection refused"
			}, Fail, "connection refused",
		},
		{
			"api-servers", "external, two", func(e *Evidence) {
				e.Endpoint.External, e.Endpoint.InRotation = true, []string{"cp1", "cp2"}
			}, Warn, "2 API servers",
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
		{"audit", "no RBAC", file("audit-policy-file", "{group: rbac.authorization.k8s.io}", "{group: apps}"), Fail, "RBAC"},
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
		{"certificates", "signed elsewhere", func(e *Evidence) { e.SignedOutside = []string{"kubernetes"} }, Warn, "signer"},
		{"certificates", "unread", unreadMember, Unknown, "cp2"},
		{"certificates", "none", func(e *Evidence) { e.Certificates = nil }, Unknown, "no certificate"},

		{"snapshots", "none", eachMember(func(m *Member) { m.Schedules = nil }), Fail, "no systemd timer"},
		{"snapshots", "kept there", eachMember(func(m *Member) {
			m.Schedules[0].Command = "etcdctl snapshot save /backup/s"
		}), Warn, "elsewhere"},
		{"snapshots", "failed", eachMember(func(m *Member) { m.Schedules[0].Failed = true }), Warn, "failed"},
		{"snapshots", "not yet", eachMember(func(m *Member) { m.Schedules[0].Ran = time.Time{} }), Warn, "not run yet"},
		{
			"snapshots", "on one of them", func(e *Evidence) { e.Members[0].Schedules, e.Members[1].Schedules = nil, nil }, Pass,
			"on cp3",
		},
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
			"snapshots", "scheduled, nothing sent of late", scheduled(func(s []*Scheduled) { s[1].Sent = s[0].Sent }), Warn,
			"no snapshot has been uploaded since that of 2026-11-21T11:00:01Z from cp1",
		},
		{"snapshots", "scheduled, the next under way", scheduled(func(s []*Scheduled) {
			for i := range s {
				s[i].Ran, s[i].Next = s[i].Ran.Add(time.Hour), s[i].Next.Add(time.Hour)
			}
		}), Pass, "from cp2"},
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
		{"snapshots", "scheduled, beside a timer of theirs", func(e *Evidence) {
			theirs := e.Members[0].Schedules
			scheduled(func(s []*Scheduled) { s[2].Failed = true })(e)
			e.Members[0].Schedules = theirs
		}, Pass, "last run failed on cp3; etcd-snapshot.timer on cp1, last run at"},
		{"snapshots", "unread", func(e *Evidence) {
			eachMember(func(m *Member) { m.Schedules = nil })(e)
			unreadMember(e)
		}, Unknown, "some machines"},

		{
			"etcd-disk", "shared and slow", eachMember(func(m *Member) { m.OwnDisk, m.Fsync = false, 80*time.Millisecond }),
			Fail, "root file system; 99 % of its fsyncs take up to 80ms",
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
		{"admission", "PodSecurity off", server("disable-admission-plugins", "PodSecurity"), Fail, "disabled: PodSecurity"},
		{
			"admission", "everything admitted", server("enable-admission-plugins", "NodeRestriction,AlwaysAdmit"), Warn,
			"AlwaysAdmit",
		},
		{"admission", "unread", unreadReplica, Unknown, "cp2"},

		{"anonymous", "default", server("authentication-config", "-"), Fail, "all paths"},
		{"anonymous", "off by flag", func(e *Evidence) {
			server("authentication-config", "-")(e)
			server("anonymous-auth", "false")(e)
		}, Pass, "disabled"},
		{"anonymous", "off by file", file("authentication-config", "enabled: true", "enabled: false"), Pass, "disabled"},
		{"anonymous", "unconditional", file("authentication-config",
			", conditions: [{path: /livez}, {path: /readyz}, {path: /healthz}]", ""), Fail, "all paths"},
		{"anonymous", "one path more", file("authentication-config", "{path: /livez}", "{path: /version}"), Warn, "/version"},
		{"anonymous", "unreadable", noFile("authentication-config"), Unknown, "/authentication.yaml"},

		{"insecure-port", "an old server", server("insecure-port", "8080"), Fail, "--insecure-port=8080"},
		{"insecure-port", "turned off", server("insecure-port", "0"), Pass, "none"},
		{
			"insecure-port", "etcd in the clear", member("listen-client-urls", "http://10.0.0.11:2379"), Fail,
			"http://10.0.0.11:2379",
		},
		{"insecure-port", "unread", unreadMember, Unknown, "cp2"},

		{"profiling", "on", server("profiling", "true"), Fail, "kube-apiserver"},
		{"profiling", "default", server("profiling", "-"), Fail, "kube-apiserver"},
		{"profiling", "of etcd", member("enable-pprof", "true"), Fail, "etcd: enabled"},
		{
			"profiling", "stopped", func(e *Evidence) { e.Replicas[0].Scheduler = Process{} }, Unknown,
			"kube-scheduler is not running",
		},

		{"etcd-tls", "no peer authentication", member("peer-client-cert-auth", "-"), Fail, "--peer-client-cert-auth"},
		{"etcd-tls", "no certificate", member("cert-file", "-"), Fail, "--cert-file"},
		{"etcd-tls", "one for both", func(e *Evidence) { member("peer-cert-file", "/server.crt")(e) }, Warn, "/server.crt"},
		{"etcd-tls", "stopped", eachMember(func(m *Member) { m.Process = Process{} }), Unknown, "is not running"},

		{"taints", "open", func(e *Evidence) { e.Nodes[0].Taints = nil }, Fail, "cp1"},
		{"taints", "not for good", func(e *Evidence) {
			e.Nodes[0].Taints = []string{"node.kubernetes.io/not-ready:NoSchedule"}
		}, Fail, "cp1"},
		{"taints", "no nodes", func(e *Evidence) { e.Nodes = nil }, Pass, "none of these"},
		{"taints", "unread", func(e *Evidence) { e.NodesUnread = "no API server answers" }, Unknown, "no API server"},

		{"resources", "none", func(e *Evidence) {
			for i := range e.Replicas {
				r := &e.Replicas[i]
				r.APIServer.MemoryMax, r.ControllerManager.MemoryMax, r.Scheduler.MemoryMax = "", "", ""
				e.Members[i].Process.MemoryMax = ""
			}
		}, Fail, "no component has limits"},
		{"resources", "not of etcd", eachMember(func(m *Member) { m.Process.MemoryMax = "" }), Warn, "without a limit: etcd"},
		{
			"resources", "by processor time", eachMember(func(m *Member) { m.Process.MemoryMax, m.Process.CPUQuota = "", "2s" }),
			Pass, "all",
		},
		{"resources", "unread", unreadMember, Unknown, "cp2"},

		{"compaction", "off", server("etcd-compaction-interval", "0"), Fail, "compaction by the API server is disabled"},
		{"compaction", "by itself", func(e *Evidence) {
			server("etcd-compaction-interval", "0s")(e)
			member("auto-compaction-retention", "1h")(e)
		}, Pass, "compacts automatically"},
		{"compaction", "seldom", server("etcd-compaction-interval", "1h"), Pass, "every 1h"},
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
		{"metrics", "from afar", member("listen-metrics-urls", "http://10.0.0.11:2381"), Pass, "http://10.0.0.11:2381"},
	} {
		t.Run(c.id+"/"+c.name, func(t *testing.T) {
			e := ready()
			c.change(&e)
			for _, f := range Judge(e) {
				if f.ID != c.id {
					continue
				}
				if f.Status != c.want || !strings.Contains(f.Evidence, c.says) {
					t.Errorf("%s, want %s with %q", f, c.want, c.says)
				}
				if (f.Remedy == "") != (f.Status == Pass) {
					t.Errorf("%s: remedy %q", f, f.Remedy)
				}
				return
			}
			t.Errorf("there is no item %s", c.id)
		})
	}
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
	warned := ready()
	warned.Etcd.Voters, warned.Etcd.Healthy = 4, 4
	if findings := Judge(warned); Score(findings) != 19 || !Ready(findings) {
		t.Errorf("with a warning: %d, %v", Score(findings), Ready(findings))
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
