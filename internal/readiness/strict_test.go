package readiness

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestJudgeSnapshots(t *testing.T) {
	judgeAll(t, []judged{
		{"snapshots", "none", eachMember(func(m *Member) { m.Scheduled = nil }), Fail, "no systemd timer"},
		{"snapshots", "none seen", func(e *Evidence) {
			eachMember(func(m *Member) { m.Scheduled = nil })(e)
			unreadMember(e)
		}, Unknown, "some machines"},
		{"snapshots", "foreign", foreign(func(*Schedule) {}), Unknown, "does not show"},
		{"snapshots", "foreign, failed", foreign(func(s *Schedule) { s.Failed = true }), Fail, "its last run failed"},
		{"snapshots", "foreign, not yet", foreign(func(s *Schedule) { s.Ran = time.Time{} }), Warn, "not run yet"},
		{"snapshots", "one foreign timer", func(e *Evidence) {
			foreign(func(*Schedule) {})(e)
			e.Members[0].Schedules, e.Members[1].Schedules = nil, nil
		}, Unknown, "timers: etcd-backup.timer on cp3, last run"},
		{"snapshots", "foreign, failed on one", func(e *Evidence) {
			foreign(func(*Schedule) {})(e)
			e.Members[0].Schedules[0].Failed = true
		}, Unknown, "on cp1, its last run failed"},
		{"snapshots", "beside a foreign timer that failed", func(e *Evidence) {
			e.Members[0].Schedules = []Schedule{{Name: "etcd-backup.timer", Failed: true}}
		}, Pass, "etcd-backup.timer on cp1, its last run failed"},
		{"snapshots", "failed beside a foreign timer", func(e *Evidence) {
			e.Members[0].Schedules = []Schedule{{Name: "etcd-backup.timer", Ran: now}}
			e.Members[1].Scheduled.Failed = true
		}, Warn, "last run failed on cp2"},
		{"snapshots", "every two hours", scheduled(func(s []*Scheduled) {
			for _, one := range s {
				one.Interval = 2 * time.Hour
			}
		}), Warn, "every 2h0m0s only"},
		{
			"snapshots", "hourly but at weekends", scheduled(func(s []*Scheduled) { s[2].Interval = 60 * time.Hour }), Warn,
			"every 60h0m0s only",
		},
		{
			"snapshots", "two intervals ago", scheduled(func(s []*Scheduled) { s[1].Sent = now.Add(-2 * time.Hour) }), Pass,
			"from cp2",
		},
		{"snapshots", "more than two intervals ago", scheduled(func(s []*Scheduled) {
			s[1].Sent = now.Add(-2*time.Hour - time.Second)
		}), Fail, "more than two intervals of 1h0m0s ago"},
		{"snapshots", "overdue and failed", scheduled(func(s []*Scheduled) {
			s[1].Sent, s[0].Failed = now.Add(-3*time.Hour), true
		}), Fail, "more than two intervals"},
		{"snapshots", "every second", scheduled(func(s []*Scheduled) {
			for _, one := range s {
				one.Interval = time.Second
			}
			s[1].Sent = now.Add(-time.Minute)
		}), Pass, "every 1s"},
		{
			"snapshots", "in the future", scheduled(func(s []*Scheduled) { s[1].Sent = now.Add(time.Hour) }), Unknown,
			"in the future",
		},
		{"snapshots", "a clock ahead", scheduled(func(s []*Scheduled) { s[1].Sent = now.Add(time.Minute) }), Pass, "cp2"},
		{
			"snapshots", "never sent since long ago", scheduled(func(s []*Scheduled) {
				s[0].Sent, s[1].Sent = time.Time{}, time.Time{}
				s[0].Since, s[2].Since = now.Add(-9*time.Hour), now.Add(-2*time.Hour-time.Second)
			}), Fail, "no snapshot has ever been uploaded, and uploads are configured since 2026-11-22T09:59:59Z",
		},
		{
			"snapshots", "never sent, and not due yet on one machine", scheduled(func(s []*Scheduled) {
				s[0].Sent, s[1].Sent = time.Time{}, time.Time{}
				s[0].Since, s[2].Since = now.Add(-9*time.Hour), now.Add(-2*time.Hour)
			}), Warn, "no snapshot has been uploaded yet",
		},
		{
			"snapshots", "sent in spite of a new configuration", scheduled(func(s []*Scheduled) {
				s[0].Since = now.Add(-9 * time.Hour)
			}), Pass, "cp2",
		},
		{
			"snapshots", "kept on the machines since long ago", scheduled(func(s []*Scheduled) {
				for _, one := range s {
					one.Uploads, one.Sent, one.Since = false, time.Time{}, now.Add(-9*time.Hour)
				}
			}), Warn, "stay on the machines",
		},
		{"snapshots", "sent, and one machine unread", func(e *Evidence) {
			scheduled(func([]*Scheduled) {})(e)
			e.Members[2] = Member{Name: "cp3", Unread: "it cannot be reached"}
		}, Unknown, "from cp2; not observed: cp3"},
		{"snapshots", "overdue, and one machine unread", func(e *Evidence) {
			scheduled(func(s []*Scheduled) { s[1].Sent = now.Add(-5 * time.Hour) })(e)
			e.Members[2] = Member{Name: "cp3", Unread: "it cannot be reached"}
		}, Unknown, "more than two intervals"},
		{"snapshots", "no interval", scheduled(func(s []*Scheduled) { s[2].Interval = 0 }), Unknown, "how often"},
		{
			"snapshots", "a negative interval", scheduled(func(s []*Scheduled) { s[2].Interval = -time.Hour }), Unknown,
			"how often",
		},
	})
}

func TestJudgeAudit(t *testing.T) {
	const rest = "  - level: Metadata\n"
	rules := func(first string) func(*Evidence) { return policyOf("rules:\n" + first + rest) }
	judgeAll(t, []judged{
		{
			"audit", "exec by POST only", file("audit-policy-file", "pods/exec, pods/attach]}]",
				"pods/exec]}]\n    verbs: [create]"),
			Fail, "exec",
		},
		{
			"audit", "Secrets but watches", rules("  - {level: None, verbs: [watch], resources: [{resources: [secrets]}]}\n"),
			Fail, "reads of Secrets",
		},
		{
			"audit", "Secrets but deletions of all",
			rules("  - {level: None, verbs: [deletecollection], resources: [{resources: [secrets]}]}\n"), Fail,
			"changes of Secrets",
		},
		{
			"audit", "reads of roles", rules("  - {level: None, verbs: [list], resources: [{group: " +
				rbacGroup + "}]}\n"), Fail,
			"reads of RBAC",
		},
		{"audit", "bindings of one namespace", rules("  - {level: None, namespaces: [a], verbs: [patch], resources: " +
			"[{group: " +
			rbacGroup + ", resources: [rolebindings]}]}\n"), Fail, "changes of RBAC"},
		{"audit", "a namespace has no cluster roles", rules("  - {level: None, namespaces: [a], resources: [{group: " +
			rbacGroup + ", resources: [clusterroles]}]}\n"), Pass, "every verb"},
		{
			"audit", "administrators left out", rules(`  - {level: None, userGroups: ["system:masters"]}` + "\n"), Fail,
			"exec",
		},
		{"audit", "a person left out", rules("  - {level: None, users: [eve]}\n"), Fail, "exec"},
		{"audit", "a group of people left out", rules("  - {level: None, userGroups: [operators]}\n"), Fail, "exec"},
		{"audit", "the system left out", rules(`  - {level: None, users: ["system:apiserver"]}` + "\n"), Pass, "covers"},
		{"audit", "nodes left out", rules(`  - {level: None, userGroups: ["system:nodes"]}` + "\n"), Pass, "covers"},
		{"audit", "a namespace left out", rules("  - {level: None, namespaces: [kube-system]}\n"), Fail, "exec"},
		{
			"audit", "without stages", policyOf("omitStages: [RequestReceived, ResponseComplete]\nrules:\n" + rest), Fail,
			"exec",
		},
		{"audit", "a rule without stages", rules("  - {level: Metadata, omitStages: [ResponseComplete, RequestReceived], " +
			"resources: [{resources: [pods/exec]}]}\n"), Fail, "exec"},
		{"audit", "one stage less", policyOf("omitStages: [RequestReceived]\nrules:\n" + rest), Pass, "covers"},
		{"audit", "without a level", rules("  - {resources: [{resources: [secrets]}]}\n"), Fail, "Secrets"},
		{"audit", "two names left out", rules("  - {level: None, resources: [{resources: [secrets], " +
			"resourceNames: [b, a]}]}\n"), Fail, "the policy does not cover reads of Secrets of the objects a, b, changes of " +
			"Secrets of the objects a, b"},
		{"audit", "a name without stages", rules("  - {level: Metadata, omitStages: [RequestReceived, ResponseComplete], " +
			"resources: [{resources: [secrets], resourceNames: [a]}]}\n"), Fail, "of the objects a"},
		{"audit", "exec into one Pod left out", rules("  - {level: None, verbs: [create], resources: " +
			"[{resources: ['pods/*'], resourceNames: [a]}]}\n"), Fail, "exec of the objects a"},
		{"audit", "what is created has no name", rules("  - {level: None, verbs: [create, deletecollection], resources: " +
			"[{resources: [secrets], resourceNames: [a]}]}\n"), Pass, "covers"},
		{"audit", "a name of another resource", rules("  - {level: None, resources: [{resources: [configmaps], " +
			"resourceNames: [a]}]}\n"), Pass, "covers"},
		{"audit", "a name logged before", rules("  - {level: Metadata, resources: [{resources: [secrets]}]}\n" +
			"  - {level: None, resources: [{resources: [secrets], resourceNames: [a]}]}\n"), Pass, "covers"},
		{"audit", "a name with its metadata", rules("  - {level: Metadata, resources: [{resources: [secrets], " +
			"resourceNames: [a]}]}\n"), Pass, "covers"},
		{"audit", "a name left out for nodes", rules(`  - {level: None, userGroups: ["system:nodes"], ` +
			"resources: [{resources: [secrets], resourceNames: [a]}]}\n"), Pass, "covers"},
		{
			"audit", "service accounts left out", rules(`  - {level: None, userGroups: ["system:serviceaccounts"]}` + "\n"),
			Fail, "exec",
		},
		{"audit", "service accounts of a namespace left out", rules(
			`  - {level: None, userGroups: ["system:serviceaccounts:shop"]}` + "\n"), Fail, "exec"},
		{"audit", "a service account left out", rules(`  - {level: None, users: ["system:serviceaccount:shop:till"]}` +
			"\n"), Fail, "exec"},
		{"audit", "service accounts of kube-system left out", rules(
			`  - {level: None, userGroups: ["system:serviceaccounts:kube-system"]}` + "\n" +
				`  - {level: None, users: ["system:serviceaccount:kube-system:x"]}` + "\n"), Pass, "covers"},
		{"audit", "a name like that of an account", rules(`  - {level: None, users: ["system:serviceaccount:shop"]}` +
			"\n"), Pass, "covers"},
		{"audit", "everybody who is authenticated left out", rules(
			`  - {level: None, userGroups: ["system:authenticated"]}` + "\n"), Fail, "exec"},
		{"audit", "reads of Secrets of one namespace", rules("  - {level: None, namespaces: [a], verbs: [list], " +
			"resources: [{resources: [secrets]}]}\n"), Fail, "reads of Secrets"},
		{"audit", "changes of Secrets of one namespace", rules("  - {level: None, namespaces: [a], verbs: [patch], " +
			"resources: [{resources: [secrets]}]}\n"), Fail, "changes of Secrets"},
		{"audit", "another verb left out", rules("  - {level: None, verbs: [bind]}\n"), Pass, "covers"},
		{
			"audit", "a verb that is a star", rules("  - {level: None, verbs: ['*'], resources: " +
				"[{resources: [secrets]}]}\n"), Pass,
			"covers",
		},
		{"audit", "only a verb that is a star", policyOf("rules:\n  - {level: Metadata, verbs: ['*']}\n"), Fail, "Secrets"},
		{"audit", "paths left out", rules("  - {level: None, nonResourceURLs: ['/*']}\n"), Pass, "covers"},
		{"audit", "exec of all left out", rules("  - {level: None, resources: [{resources: ['*/exec']}]}\n"), Fail, "exec"},
		{"audit", "all of Pods left out", rules("  - {level: None, resources: [{resources: ['pods/*']}]}\n"), Fail, "exec"},
		{
			"audit", "parts of Secrets left out", rules("  - {level: None, resources: [{resources: ['*/x']}]}\n"),
			Pass, "covers",
		},
		{
			"audit", "Secrets and their parts left out", rules("  - {level: None, resources: [{resources: ['secrets/*']}]}\n"),
			Fail, "Secrets",
		},
		{"audit", "all resources left out", rules("  - {level: None, resources: [{resources: ['*']}]}\n"), Fail, "exec"},
		{"audit", "as many users as there may be", policyOf("rules:\n" + manyUsers(mostNames-3) + rest), Pass, "covers"},
		{"audit", "one user too many", policyOf("rules:\n" + manyUsers(mostNames-2) + rest), Unknown, "too many"},
		{
			"audit", "as many namespaces as there may be", policyOf("rules:\n" + manyNamespaces(mostNames-1) + rest), Pass,
			"covers",
		},
		{"audit", "one namespace too many", policyOf("rules:\n" + manyNamespaces(mostNames) + rest), Unknown, "too many"},
		{
			"audit", "one body", rules("  - {level: Request, verbs: [watch], resources: [{resources: [secrets]}]}\n"), Warn,
			"reads of Secrets are logged with bodies",
		},
		{"audit", "too large", policyOf("rules:\n" + strings.Repeat(rest, mostRules+1)), Unknown, "too many"},
		{"audit", "as large as it may be", policyOf("rules:\n" + strings.Repeat(rest, mostRules)), Pass, "covers"},
	})
}

func manyUsers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "  - {level: Metadata, users: [u%d]}\n", i)
	}
	return b.String()
}

func manyNamespaces(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "  - {level: Metadata, namespaces: [n%d, n0]}\n", i)
	}
	return b.String()
}

func TestJudgeDisk(t *testing.T) {
	shared := eachMember(func(m *Member) { m.Sharing = []string{"/", "/home"} })
	judgeAll(t, []judged{
		{"etcd-disk", "its own", func(*Evidence) {}, Pass, "a disk of its own, sdb at /var/lib/etcd"},
		{"etcd-disk", "a partition", shared, Warn, "the disk sdb is shared with /, /home"},
		{"etcd-disk", "a slow partition", func(e *Evidence) {
			shared(e)
			e.Members[0].Fsync = 11 * time.Millisecond
		}, Fail, "shared with"},
		{"etcd-disk", "one disk of two is shared", func(e *Evidence) {
			e.Members[1].Devices, e.Members[1].Sharing = []string{"sda", "sdb"}, []string{"/"}
		}, Warn, "cp2: its data is on a file system of its own, /var/lib/etcd, but the disk sda, sdb"},
		{
			"etcd-disk", "a file", eachMember(func(m *Member) { m.Devices = []string{"loop3"} }), Warn,
			"in a file of another",
		},
		{
			"etcd-disk", "in the network", eachMember(func(m *Member) { m.Devices = nil }), Unknown,
			"whose disk does not show",
		},
		{"etcd-disk", "slow in the network", eachMember(func(m *Member) {
			m.Devices, m.Fsync = nil, time.Second
		}), Unknown, "1s"},
		{"etcd-disk", "just fast enough", eachMember(func(m *Member) { m.Fsync = fastFsync }), Pass, "10ms"},
	})
}

func TestJudgeEncryption(t *testing.T) {
	stored := func(s map[string]Stored) func(*Evidence) { return func(e *Evidence) { e.Encryption.Stored = s } }
	judgeAll(t, []judged{
		{"encryption", "looked at", func(*Evidence) {}, Pass, "all of 12 secrets are stored encrypted"},
		{
			"encryption", "one from before", stored(map[string]Stored{"secrets": {Objects: 12, Clear: 1}}), Fail,
			"1 of 12 secrets are stored unencrypted",
		},
		{
			"encryption", "of another resource", stored(map[string]Stored{
				"secrets": {Objects: 12}, "configmaps": {3, 2, 0, false},
			}),
			Fail, "2 of 3 configmaps are stored unencrypted",
		},
		{
			"encryption", "another key", stored(map[string]Stored{"secrets": {Objects: 12, Other: 4}}), Warn,
			"4 of 12 secrets",
		},
		{
			"encryption", "one with another key", stored(map[string]Stored{"secrets": {Objects: 12, Other: 1}}), Warn,
			"1 of 12 secrets",
		},
		{"encryption", "no Secret", stored(map[string]Stored{"secrets": {}}), Pass, "no secrets are stored"},
		{
			"encryption", "many", stored(map[string]Stored{"secrets": {Objects: 2000, Partly: true}}), Unknown,
			"all of the first 2000 secrets are stored encrypted, and more were not looked at",
		},
		{
			"encryption", "many, one in the clear", stored(map[string]Stored{"secrets": {Objects: 20, Clear: 1, Partly: true}}),
			Fail, "1 of the first 20 secrets",
		},
		{"encryption", "not looked at", stored(nil), Unknown, "not known"},
		{"encryption", "unread", func(e *Evidence) { e.Encryption.StoredUnread = "no quorum" }, Unknown, "no quorum"},
	})
}

func TestJudgeTLSAndProfiling(t *testing.T) {
	side := func(change func(*TLS)) func(*Evidence) {
		return eachMember(func(m *Member) { change(&m.TLS) })
	}
	asks := func(a Answer) func(*Evidence) {
		return func(e *Evidence) { e.Replicas[0].Profiling["kube-scheduler"] = a }
	}
	judgeAll(t, []judged{
		{"etcd-tls", "one key for both", side(func(s *TLS) { s.Peers.Key = s.Clients.Key }), Warn, "the same key"},
		{
			"etcd-tls", "refused", side(func(s *TLS) { s.Clients.Refused = "it has expired" }), Fail,
			"for clients is refused: it has expired",
		},
		{
			"etcd-tls", "peers refused", side(func(s *TLS) { s.Peers.Refused = "another address" }), Fail,
			"for peers is refused",
		},
		{
			"etcd-tls", "open to users of the API", side(func(s *TLS) { s.Clients.Foreign = []string{"kubernetes"} }), Fail,
			"a certificate of the CA kubernetes is accepted among clients",
		},
		{"etcd-tls", "unread", side(func(s *TLS) { *s = TLS{Unread: "no such file"} }), Unknown, "no such file"},
		{
			"etcd-tls", "without a certificate", side(func(s *TLS) { s.Peers.Key = "" }), Unknown,
			"for peers cannot be read",
		},

		{"profiling", "flags say nothing", server("profiling", "true"), Pass, "disabled"},
		{"profiling", "on", asks(Answer{Status: 200}), Fail, "cp1: kube-scheduler serves profiles"},
		{
			"profiling", "of etcd", eachMember(func(m *Member) { m.Profiling = Answer{Status: 200} }), Fail,
			"etcd serves profiles",
		},
		{"profiling", "refused", asks(Answer{Status: 403}), Unknown, "HTTP status 403"},
		{"profiling", "redirected", asks(Answer{Status: 302}), Unknown, "302"},
		{"profiling", "silent", asks(Answer{Unread: "timeout"}), Unknown, "timeout"},
		{"profiling", "not asked", asks(Answer{}), Unknown, "was not asked"},
		{
			"profiling", "etcd not asked", eachMember(func(m *Member) { m.Profiling = Answer{} }), Unknown,
			"etcd was not asked",
		},
	})
}

func TestJudgeResources(t *testing.T) {
	judgeAll(t, []judged{
		{
			"resources", "none", eachProcess(func(p *Process) {
				p.MemoryMax, p.MemoryMin, p.CPUWeight, p.IOWeight = "", "", "", ""
			}),
			Fail, "no component has limits",
		},
		{"resources", "usual shares", eachProcess(func(p *Process) {
			p.MemoryMax, p.MemoryMin, p.CPUWeight, p.IOWeight = "", "0", "100", "100"
		}), Fail, "no component has limits"},
		{
			"resources", "no reservation", eachProcess(func(p *Process) { p.MemoryMin, p.CPUWeight = "0", "100" }), Warn,
			"without a reservation: kube-apiserver",
		},
		{
			"resources", "a smaller share", eachProcess(func(p *Process) { p.MemoryMin, p.CPUWeight = "", "50" }), Warn,
			"without a reservation",
		},
		{
			"resources", "by disk", eachProcess(func(p *Process) { p.MemoryMin, p.CPUWeight, p.IOWeight = "", "", "101" }), Pass,
			"all have",
		},
		{"resources", "by memory", eachProcess(func(p *Process) { p.CPUWeight = "" }), Pass, "all have"},
		{
			"resources", "of etcd alone", eachMember(func(m *Member) { m.Process.MemoryMax = "" }), Warn,
			"without a limit: etcd",
		},
		{
			"resources", "not for etcd", eachMember(func(m *Member) { m.Process.MemoryMin, m.Process.CPUWeight = "", "" }), Warn,
			"without a reservation: etcd",
		},
		{"resources", "by processor time", eachMember(func(m *Member) {
			m.Process.MemoryMax, m.Process.CPUQuota = "", "2s"
		}), Pass, "all"},
		{
			"resources", "of a container", eachProcess(func(p *Process) {
				p.MemoryMin, p.CPUWeight, p.IOWeight, p.CPURequest = "", "", "", true
			}), Pass, "all have",
		},
		{
			"resources", "that do not show", eachProcess(func(p *Process) { *p = Process{Running: true, Unseen: "no cgroup"} }),
			Unknown, "do not show: kube-apiserver (no cgroup), kube-controller-manager",
		},
		{"resources", "that do not show of one, and none of the others", func(e *Evidence) {
			eachProcess(func(p *Process) { *p = Process{Running: true} })(e)
			e.Members[0].Process.Unseen = "no cgroup"
		}, Unknown, "etcd (no cgroup)"},
		{"resources", "not in effect", func(e *Evidence) {
			e.Members[1].Process.NotInEffect = []string{"CPUWeight=200, and etcd.slice has none"}
		}, Warn, "cp2: reserved, and not in effect until the next start: etcd (CPUWeight=200, and etcd.slice has none)"},
		{
			"resources", "nonsense", eachProcess(func(p *Process) { p.MemoryMin, p.CPUWeight = "", "many" }), Warn,
			"without a reservation",
		},
	})
}

func TestJudgeCompaction(t *testing.T) {
	seen := func(change func(*Compaction)) func(*Evidence) {
		return eachMember(func(m *Member) { change(&m.Compaction) })
	}
	judgeAll(t, []judged{
		{"compaction", "seen", func(*Evidence) {}, Pass, "compacted within the last 15m0s"},
		{"compaction", "just in time", seen(func(c *Compaction) { c.Last = now.Add(-15 * time.Minute) }), Pass, "15m0s"},
		{
			"compaction", "long ago", seen(func(c *Compaction) { c.Last = now.Add(-16 * time.Minute) }), Fail,
			"the last compaction was 16m0s ago, up to revision 5000",
		},
		{
			"compaction", "never", seen(func(c *Compaction) { c.Last, c.Revision = time.Time{}, 0 }), Fail,
			"no compaction since its start 48h0m0s ago",
		},
		{
			"compaction", "not since its start", seen(func(c *Compaction) { c.Last = time.Time{} }), Fail,
			"no compaction since",
		},
		{
			"compaction", "a new cluster", seen(func(c *Compaction) { *c = Compaction{Uptime: 15 * time.Minute} }), Unknown,
			"one is due within 15m0s",
		},
		{
			"compaction", "all restarted", seen(func(c *Compaction) { *c = Compaction{Uptime: time.Minute, Revision: 3} }),
			Unknown, "no compaction since its start 1m0s ago; one is due within 15m0s",
		},
		{"compaction", "one restarted", func(e *Evidence) {
			e.Members[0].Compaction = Compaction{Uptime: time.Minute, Revision: 5000}
		}, Pass, "compacted within the last 15m0s"},
		{"compaction", "one restarted, after a later compaction", func(e *Evidence) {
			e.Members[0].Compaction = Compaction{Uptime: 15 * time.Minute, Revision: 5001}
		}, Pass, "compacted within the last 15m0s"},
		{"compaction", "one restarted, and ahead of one of two", func(e *Evidence) {
			e.Members[0].Compaction = Compaction{Uptime: time.Minute, Revision: 5000}
			e.Members[1].Compaction.Revision, e.Members[2].Compaction.Revision = 6000, 4000
		}, Pass, "compacted within the last 15m0s"},
		{"compaction", "one restarted, behind the others", func(e *Evidence) {
			e.Members[0].Compaction = Compaction{Uptime: time.Minute, Revision: 4999}
		}, Unknown, "cp1: no compaction since its start"},
		{"compaction", "one restarted, the others unread", func(e *Evidence) {
			seen(func(c *Compaction) { c.Unread = "no metrics" })(e)
			e.Members[0].Compaction = Compaction{Uptime: time.Minute, Revision: 5000}
		}, Unknown, "cp1: no compaction since its start"},
		{"compaction", "one restarted, the others in the future", func(e *Evidence) {
			seen(func(c *Compaction) { c.Last = now.Add(time.Hour) })(e)
			e.Members[0].Compaction = Compaction{Uptime: time.Minute, Revision: 5000}
		}, Unknown, "cp1: no compaction since its start"},
		{"compaction", "one restarted, the others by clocks that are ahead", func(e *Evidence) {
			seen(func(c *Compaction) { c.Last = now.Add(clockTolerance) })(e)
			e.Members[0].Compaction = Compaction{Uptime: time.Minute, Revision: 5000}
		}, Pass, "compacted within the last 15m0s"},
		{"compaction", "one restarted, the others too late", func(e *Evidence) {
			seen(func(c *Compaction) { c.Last = now.Add(-16 * time.Minute) })(e)
			e.Members[0].Compaction = Compaction{Uptime: time.Minute, Revision: 5000}
		}, Fail, "cp1: no compaction since its start"},
		{"compaction", "one restarted long ago", func(e *Evidence) {
			e.Members[0].Compaction = Compaction{Uptime: 16 * time.Minute, Revision: 5000}
		}, Fail, "cp1: no compaction since its start 16m0s ago"},
		{
			"compaction", "in the future", seen(func(c *Compaction) { c.Last = now.Add(time.Hour) }), Unknown,
			"in the future",
		},
		{"compaction", "by itself and stopped", func(e *Evidence) {
			server("etcd-compaction-interval", "0")(e)
			eachMember(func(m *Member) {
				m.Process.Running = false
				set(m.Process.Flags, "auto-compaction-retention", "1h")
			})(e)
		}, Fail, "disabled"},
		{"compaction", "without a revision", seen(func(c *Compaction) { c.Revision = 0 }), Fail, "no compaction since"},
		{"compaction", "up to the first revision", seen(func(c *Compaction) { c.Revision = 1 }), Pass, "compacted"},
		{"compaction", "long ago up to the first", seen(func(c *Compaction) {
			c.Revision, c.Last = 1, now.Add(-time.Hour)
		}), Fail, "up to revision 1"},
		{"compaction", "due just now", seen(func(c *Compaction) {
			*c = Compaction{Uptime: 15 * time.Minute, Revision: 1}
		}), Unknown, "one is due"},
		{"compaction", "not read", seen(func(c *Compaction) { c.Unread = "no metrics" }), Unknown, "no metrics"},
		{"compaction", "hourly", func(e *Evidence) {
			server("etcd-compaction-interval", "1h")(e)
			seen(func(c *Compaction) { c.Last = now.Add(-2 * time.Hour) })(e)
		}, Pass, "every 1h"},
		{"compaction", "seldom", func(e *Evidence) {
			server("etcd-compaction-interval", "61m")(e)
			seen(func(c *Compaction) { c.Last = now.Add(-2 * time.Hour) })(e)
		}, Warn, "every 1h1m0s only"},
		{"compaction", "not an interval", server("etcd-compaction-interval", "often"), Unknown, "is not an interval"},
		{"compaction", "a negative interval", server("etcd-compaction-interval", "-5m"), Unknown, "is not an interval"},
	})
}

func TestJudgeMetricsAndAlerts(t *testing.T) {
	read := func(s Scrapes) func(*Evidence) { return eachProcess(func(p *Process) { p.Scrapes = s }) }
	judgeAll(t, []judged{
		{"metrics", "scraped", func(*Evidence) {}, Pass, "kube-scheduler is scraped by 10.0.0.9 within the last minute"},
		{
			"metrics", "connected", read(Scrapes{Connections: true, Last: []Scrape{{"a", time.Second}}}), Pass,
			"kube-scheduler serves metrics to connections of a within the last minute",
		},
		{"metrics", "by nobody", func(e *Evidence) {
			policyOf("rules: [{level: Metadata}]")(e)
			read(Scrapes{})(e)
		}, Warn, "nobody reads them"},
		{"metrics", "not in the audit log", func(e *Evidence) {
			policyOf("rules: [{level: None, nonResourceURLs: ['/met*']}, {level: Metadata}]")(e)
			read(Scrapes{})(e)
		}, Unknown, "the audit policy leaves it out"},
		{
			"metrics", "the others do not need it", func(e *Evidence) { read(Scrapes{})(e) }, Unknown,
			"kube-scheduler serves metrics, and nobody reads them",
		},
		{
			"metrics", "by two", read(Scrapes{Last: []Scrape{{"b", 0}, {"a", time.Minute}, {"c", time.Second}}}), Pass,
			"a 1 min ago, b within the last minute, c within the last minute",
		},
		{
			"metrics", "long ago by two", read(Scrapes{Last: []Scrape{{"b", time.Hour}, {"a", time.Hour}}}), Warn,
			"a 60 min ago, b 60 min ago",
		},
		{
			"metrics", "by five", read(Scrapes{Last: []Scrape{{"a", 0}, {"b", 0}, {"c", 0}, {"d", 0}, {"e", 0}}}), Pass,
			"e within the last minute, kube-controller-manager",
		},
		{
			"metrics", "at another port", func(e *Evidence) { e.Replicas[0].Scheduler.Flags["secure-port"] = "10260" }, Pass,
			"kube-scheduler is scraped",
		},
		{"metrics", "metrics alone not in the audit log", func(e *Evidence) {
			policyOf("rules: [{level: None, nonResourceURLs: ['/metrics']}, {level: Metadata}]")(e)
			read(Scrapes{})(e)
		}, Unknown, "the audit policy leaves it out"},
		{"metrics", "scrapers not in the audit log", func(e *Evidence) {
			policyOf(`rules: [{level: None, userGroups: ["system:monitoring"]}, {level: Metadata}]`)(e)
			read(Scrapes{})(e)
		}, Unknown, "the audit policy leaves it out"},
		{"metrics", "a scraper in a Pod not in the audit log", func(e *Evidence) {
			policyOf(`rules: [{level: None, users: ["system:serviceaccount:monitoring:prometheus"]}, {level: Metadata}]`)(e)
			read(Scrapes{})(e)
		}, Unknown, "the audit policy leaves it out"},
		{"metrics", "resources not in the audit log", func(e *Evidence) {
			policyOf("rules: [{level: None, namespaces: [a]}, {level: None, resources: [{group: a}]}, {level: Metadata}]")(e)
			read(Scrapes{})(e)
		}, Warn, "kube-apiserver serves metrics, and nobody"},
		{"metrics", "another path not in the audit log", func(e *Evidence) {
			policyOf("rules: [{level: None, nonResourceURLs: ['/metric', '/metrics/*']}, {level: Metadata}]")(e)
			read(Scrapes{})(e)
		}, Warn, "kube-apiserver serves metrics, and nobody"},
		{
			"metrics", "not of etcd", eachMember(func(m *Member) { m.Process.Scrapes = Scrapes{} }), Warn,
			"nobody reads them",
		},
		{"metrics", "slowly", read(Scrapes{Last: []Scrape{{"10.0.0.9", 10 * time.Minute}}}), Pass, "10.0.0.9 10 min ago"},
		{
			"metrics", "long ago", read(Scrapes{Last: []Scrape{{"10.0.0.9", 11 * time.Minute}}}), Warn,
			"last scraped by 10.0.0.9",
		},
		{"metrics", "in the future", read(Scrapes{Last: []Scrape{{"10.0.0.9", -time.Hour}}}), Warn, "last scraped"},
		{"metrics", "not shown", read(Scrapes{Unseen: "ss is not installed"}), Unknown, "ss is not installed"},
		{"metrics", "shown in part", read(Scrapes{Unseen: "x", Last: []Scrape{{"10.0.0.9", 0}}}), Pass, "10.0.0.9"},
		{
			"metrics", "by many", read(Scrapes{Last: []Scrape{
				{"a", 0}, {"b", 0}, {"c", 0}, {"d", 0}, {"e", 0}, {"f", 0}, {"a", 0},
			}}),
			Pass, "e within the last minute, others",
		},
		{"metrics", "stopped", func(e *Evidence) { e.Replicas[0].Scheduler.Running = false }, Unknown, "is not running"},

		{"certificates", "an alert", func(*Evidence) {}, Pass, "KubeClientCertificateExpiration is raised"},
		{
			"certificates", "other alerts", func(e *Evidence) { e.Alerts.Certificates = nil }, Warn,
			"none of the 30 alerts",
		},
		{"certificates", "alerts elsewhere", func(e *Evidence) { e.Alerts = Alerts{} }, Unknown, "does not show"},
		{
			"certificates", "alerts unread", func(e *Evidence) { e.Alerts = Alerts{Unread: "forbidden"} }, Unknown,
			"forbidden",
		},
	})
}
