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
	return Process{
		Running: true, Flags: flags, MemoryMax: "4294967296", MemoryMin: "1073741824", CPUWeight: "200", IOWeight: "100",
		Scrapes: Scrapes{Last: []Scrape{{"10.0.0.9", 20 * time.Second}}},
	}
}

// absent is the answer of a process without profiles.
var absent = Answer{Status: 404}

// ready returns a control plane that passes every item. The caller may change it.
func ready() Evidence {
	e := Evidence{
		Now:   now,
		Etcd:  Etcd{Voters: 3, Healthy: 3},
		Drill: &Drill{Ended: now.Add(-time.Hour), Succeeded: true, Compared: true},
		Endpoint: Endpoint{
			Address: "10.0.0.100", Balancers: 3, Holders: []string{"cp1"}, InRotation: []string{"cp1", "cp2", "cp3"},
		},
		Encryption: Encryption{
			Provider: "secretbox", Resources: []string{"secrets"}, Stored: map[string]Stored{"secrets": {Objects: 12}},
		},
		Alerts:       Alerts{Rules: 30, Certificates: []string{"KubeClientCertificateExpiration"}},
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
			Fsync: 4 * time.Millisecond, Fsyncs: 1000, Devices: []string{"sdb"}, Profiling: absent,
			Compaction: Compaction{Revision: 5000, Last: now.Add(-4 * time.Minute), Uptime: 48 * time.Hour},
			TLS:        TLS{Clients: Side{Key: "one"}, Peers: Side{Key: "two"}},
			Process: running(map[string]string{
				"cert-file": "/server.crt", "key-file": "/server.key", "trusted-ca-file": "/ca.crt", "client-cert-auth": "true",
				"peer-cert-file": "/peer.crt", "peer-key-file": "/peer.key", "peer-trusted-ca-file": "/ca.crt",
				"peer-client-cert-auth": "true",
				"listen-client-urls":    "https://127.0.0.1:2379,https://10.0.0.11:2379",
				"listen-metrics-urls":   "http://127.0.0.1:2381",
			}),
			Scheduled: &Scheduled{
				Uploads: true, Ran: now.Add(-time.Hour), Next: now, Interval: time.Hour, Sent: now.Add(-time.Hour),
			},
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
			Profiling: map[string]Answer{
				"kube-apiserver": absent, "kube-controller-manager": absent, "kube-scheduler": absent,
			},
			Files: map[string]string{"audit-policy-file": goodPolicy, "authentication-config": goodAuthentication},
		})
	}
	return e
}

// scheduled sets the provider's own timer on every machine. The timer of cp2 uploaded the last
// snapshot, that of cp1 one a day before.
func scheduled(change func([]*Scheduled)) func(*Evidence) {
	return func(e *Evidence) {
		var all []*Scheduled
		for i := range e.Members {
			s := &Scheduled{Uploads: true, Ran: now.Add(-time.Hour), Next: now, Interval: time.Hour}
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

// foreign has another timer on every machine instead of the provider's.
func foreign(change func(*Schedule)) func(*Evidence) {
	return eachMember(func(m *Member) {
		m.Scheduled = nil
		s := Schedule{Name: "etcd-backup.timer", Command: "aws s3 cp /tmp/s s3://backup/", Ran: now.Add(-time.Hour)}
		change(&s)
		m.Schedules = []Schedule{s}
	})
}

// eachProcess changes the components of every replica, and etcd.
func eachProcess(change func(p *Process)) func(*Evidence) {
	return func(e *Evidence) {
		for i := range e.Replicas {
			r := &e.Replicas[i]
			change(&r.APIServer)
			change(&r.ControllerManager)
			change(&r.Scheduler)
		}
		eachMember(func(m *Member) { change(&m.Process) })(e)
	}
}

// policyOf replaces the audit policy.
func policyOf(text string) func(*Evidence) { return file("audit-policy-file", goodPolicy, text) }

// judged is a change of a control plane that is ready, and what becomes of one item.
type judged struct {
	id, name string
	change   func(*Evidence)
	want     Status
	says     string
}

func judgeAll(t *testing.T, cases []judged) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.id+"/"+c.name, func(t *testing.T) {
			e := ready()
			c.change(&e)
			for _, f := range Judge(e, c.id) {
				if f.ID != c.id {
					continue
				}
				if f.Status != c.want || !strings.Contains(f.Evidence, c.says) {
					t.Errorf("%s, want %s with %q", f, c.want, c.says)
				}
				if (f.Remedy == "") != (f.Status == Pass) {
					t.Errorf("%s: remedy %q", f, f.Remedy)
				}
				if f.Accepted != f.Acceptable || f.Status == Warn && !f.Acceptable || f.Status == Fail && f.Acceptable {
					t.Errorf("%s: acceptable: %v, accepted: %v", f, f.Acceptable, f.Accepted)
				}
				return
			}
			t.Errorf("there is no item %s", c.id)
		})
	}
}
