package provider

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/haproxy"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

var (
	observed = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	farEnd   = observed.AddDate(1, 0, 0)
	nearEnd  = observed.Add(9*24*time.Hour + time.Hour)
)

// wholeControlPlane returns three healthy machines. The caller may change them.
func wholeControlPlane() controlPlane {
	seen := controlPlane{
		endpoint: endpointHealth{Health: haproxy.Health{
			Address: "10.0.0.100", Balancers: map[string]haproxy.Balancer{},
			Replicas: map[string]string{},
		}},
		replicas:    map[string]listedReplica{},
		authorities: map[string]time.Time{"kubernetes": observed.AddDate(10, 0, 0)},
	}
	seen.etcd.ClusterVersion = "3.6"
	for i, name := range []string{"cp1", "cp2", "cp3"} {
		address := fmt.Sprintf("10.0.0.%d", 11+i)
		seen.etcd.Members = append(seen.etcd.Members, membership.MemberStatus{
			Member: membership.Member{
				Name: name, Version: "3.6.16", Healthy: true, DBSize: 20 << 20, DBInUse: 10 << 20,
				DBQuota: 2 << 30,
			},
			Address: address, ID: "a" + name, Leader: i == 1,
		})
		seen.etcd.Machines = append(seen.etcd.Machines, etcd.Machine{
			Address: address, Member: name, Unit: "active", Volume: "/var/lib/etcd-volume",
			Quota: 2 << 30, CertificateExpiry: farEnd,
		})
		seen.endpoint.Replicas[name] = address + ":6443"
		replica := listedReplica{Health: controlplane.Health{
			Address: address, Name: name, Version: "1.36.3",
			CertificateExpiry: farEnd,
		}, Listed: address + ":6443"}
		for _, component := range release.Components() {
			replica.Components = append(replica.Components, controlplane.Component{
				Name: component, Healthy: true, Health: "ok",
				Version: "1.36.3", CertificateExpiry: farEnd,
			})
		}
		seen.replicas[name] = replica
	}
	for i, name := range []string{"cp1", "cp2", "cp3"} {
		b := haproxy.Balancer{
			Address: fmt.Sprintf("10.0.0.%d", 11+i), Present: true, HAProxy: "active", Keepalived: "active", Answers: true,
			Backends: map[string]haproxy.Backend{}, Out: map[string]string{},
		}
		if name == "cp1" {
			b.Holds = []string{"10.0.0.100"}
		}
		for replica, at := range seen.endpoint.Replicas {
			b.Backends[replica] = haproxy.Backend{Address: at, Status: "UP", Check: "L7OK", Sessions: 3}
		}
		seen.endpoint.Balancers[name] = b
	}
	return seen
}

// behindExternal gives the control plane an external endpoint.
func behindExternal(seen *controlPlane) {
	seen.endpoint = endpointHealth{
		Health: haproxy.Health{Address: "10.0.0.100", Replicas: seen.endpoint.Replicas},
		targets: &targets.Health{
			Replicas: seen.endpoint.Replicas, NotReady: map[string]string{}, URL: "https://10.0.0.100:6443",
		},
	}
}

// changeBalancer changes one of the balancers.
func changeBalancer(seen *controlPlane, name string, change func(*haproxy.Balancer)) {
	b := seen.endpoint.Balancers[name]
	change(&b)
	seen.endpoint.Balancers[name] = b
}

func changeReplica(seen *controlPlane, name string, change func(*listedReplica)) {
	r := seen.replicas[name]
	change(&r)
	seen.replicas[name] = r
}

// dies sets what is observed of a machine without power.
func dies(seen *controlPlane, i int, name string) {
	lost := fmt.Errorf("observe the machine on 10.0.0.%d: connect to it: %w: no answer in time", 11+i, host.ErrUnreachable)
	address := seen.etcd.Machines[i].Address
	seen.etcd.Machines[i] = etcd.Machine{Address: address, Err: lost}
	seen.etcd.Members[i] = membership.MemberStatus{
		Member:  membership.Member{Name: name, Trouble: "does not answer"},
		Address: address,
	}
	changeReplica(seen, name, func(r *listedReplica) { r.Health = controlplane.Health{Address: address, Err: lost} })
	changeBalancer(seen, name, func(b *haproxy.Balancer) { *b = haproxy.Balancer{Address: address, Err: lost} })
	for _, other := range []string{"cp1", "cp2", "cp3"} {
		if other != name {
			changeBalancer(seen, other, func(b *haproxy.Balancer) { b.Out[name] = "out of rotation: DOWN L4TOUT" })
		}
	}
}

func TestIssuesOf(t *testing.T) {
	for name, c := range map[string]struct {
		change func(seen *controlPlane)
		want   []string // "KIND: SENTENCE"
	}{
		"all well": {},
		"not asked": {func(seen *controlPlane) {
			seen.notQueried = "no settings"
		}, []string{"unreachable: the control plane was not queried: no settings"}},
		"a dead machine": {func(seen *controlPlane) { dies(seen, 1, "cp2") }, []string{
			"unreachable: machine 10.0.0.12 with balancer cp2, etcd member cp2 and replica cp2: connect to it: " +
				"unreachable over SSH: no answer in time",
			"unhealthy: etcd: the members report no leader",
			"unhealthy: etcd member cp2 (10.0.0.12) does not answer",
			"unhealthy: replica cp2 (10.0.0.12): out of rotation: DOWN L4TOUT, reported by balancers cp1 and cp3",
		}},
		"the dead machine has the address": {func(seen *controlPlane) { dies(seen, 0, "cp1") }, []string{
			"unreachable: machine 10.0.0.11 with balancer cp1, etcd member cp1 and replica cp1: connect to it: " +
				"unreachable over SSH: no answer in time",
			"unhealthy: etcd member cp1 (10.0.0.11) does not answer",
			"unreachable: virtual IP 10.0.0.100: no observed balancer has it; cp1 may have it",
			"unhealthy: replica cp1 (10.0.0.11): out of rotation: DOWN L4TOUT, reported by balancers cp2 and cp3",
		}},
		"a machine that is too slow": {func(seen *controlPlane) {
			seen.etcd.Machines[2] = etcd.Machine{Address: "10.0.0.13", Err: fmt.Errorf("observe the machine on 10.0.0.13: %w",
				context.DeadlineExceeded)}
		}, []string{"unreachable: machine 10.0.0.13 with etcd member cp3: no answer within the " +
			"time limit of this data source"}},
		"an untrusted machine": {func(seen *controlPlane) {
			seen.etcd.Machines[2] = etcd.Machine{
				Address: "10.0.0.13",
				Err:     fmt.Errorf("observe: %w", &host.HostKeyError{Address: "10.0.0.13", Seen: "ssh-ed25519 AAAA"}),
			}
		}, []string{`unreachable: machine 10.0.0.13 with etcd member cp3: ` +
			`host key of 10.0.0.13 is not known: it presented "ssh-ed25519 AAAA"`}},
		"no quorum": {func(seen *controlPlane) {
			seen.etcd.Survey, seen.etcd.Silence = membership.Survey{}, errors.New("no member answers")
			seen.etcd.Machines[0].Unit, seen.etcd.Machines[1].Unit = "failed", ""
		}, []string{
			"unhealthy: etcd: no member answers",
			"unhealthy: etcd member cp1 (10.0.0.11): etcd.service is failed",
			"unhealthy: etcd member cp2 (10.0.0.12): etcd.service is missing",
		}},
		"nothing of etcd is reached": {func(seen *controlPlane) {
			seen.etcd = etcd.Health{
				Silence:  errors.New("no member answers"),
				Machines: []etcd.Machine{{Address: "10.0.0.21", Err: host.ErrUnreachable}},
			}
		}, []string{
			"unreachable: machine 10.0.0.21 with etcd member: unreachable over SSH",
			"unreachable: etcd: none of its machines can be observed, so its state is unknown",
		}},
		"a member that is not there yet": {func(seen *controlPlane) {
			seen.etcd.Machines = append(seen.etcd.Machines, etcd.Machine{Address: "10.0.0.14"})
		}, []string{"unhealthy: machine 10.0.0.14: it has no etcd member of this cluster"}},
		"a snapshot that failed": {func(seen *controlPlane) { seen.etcd.Machines[1].SnapshotFailed = "exit-code" }, []string{
			"unhealthy: etcd member cp2 (10.0.0.12): the last run of etcd-snapshot.service failed (exit-code); " +
				"check its log (journalctl -u etcd-snapshot.service)",
		}},
		"another cluster's member": {func(seen *controlPlane) {
			seen.etcd.Machines = append(seen.etcd.Machines, etcd.Machine{
				Address: "10.0.0.14", Foreign: `an etcd member of another cluster, "other"`, Unit: "active",
			})
		}, []string{`unhealthy: machine 10.0.0.14 has an etcd member of another cluster, "other"`}},
		"a member that was removed by hand": {
			func(seen *controlPlane) { seen.etcd.Members = seen.etcd.Members[:2] },
			[]string{
				"unhealthy: etcd member cp3 (10.0.0.13): the cluster does not list it, but its machine still has its files",
			},
		},
		"a learner, and alarms": {func(seen *controlPlane) {
			seen.etcd.Members[2].Learner = true
			seen.etcd.Members[0].Alarms = []string{"NOSPACE"}
			seen.etcd.Orphans = []string{"alarm CORRUPT is raised for no specific member"}
		}, []string{
			"unhealthy: etcd: alarm CORRUPT is raised for no specific member",
			"unhealthy: etcd member cp1 (10.0.0.11) has alarm NOSPACE",
			"unhealthy: etcd member cp3 (10.0.0.13) is a learner that has not been promoted",
		}},
		"a database that is nearly full": {func(seen *controlPlane) { seen.etcd.Members[0].DBSize = 1740 << 20 }, []string{
			"unhealthy: etcd member cp1 (10.0.0.11): its database uses 85 % of its quota of 2.0 GiB; " +
				"etcd refuses writes when the quota is exceeded",
		}},
		"no quota, no issue": {func(seen *controlPlane) {
			seen.etcd.Members[0].DBSize, seen.etcd.Members[0].DBQuota = 1740<<20, -1
		}, nil},
		"two holders": {func(seen *controlPlane) {
			changeBalancer(seen, "cp3", func(b *haproxy.Balancer) { b.Holds = []string{"10.0.0.100"} })
		}, []string{
			"unhealthy: virtual IP 10.0.0.100: it is on cp1 and cp3 at the same time",
		}},
		"no holder": {func(seen *controlPlane) {
			changeBalancer(seen, "cp1", func(b *haproxy.Balancer) { b.Holds = nil })
		}, []string{
			"unhealthy: virtual IP 10.0.0.100: no balancer has it",
		}},
		"both addresses on one balancer": {func(seen *controlPlane) {
			seen.endpoint.Others = []string{"fd00::100"}
			changeBalancer(seen, "cp1", func(b *haproxy.Balancer) { b.Holds = append(b.Holds, "fd00::100") })
		}, nil},
		"each address on another balancer": {func(seen *controlPlane) {
			seen.endpoint.Others = []string{"fd00::100"}
			changeBalancer(seen, "cp3", func(b *haproxy.Balancer) { b.Holds = []string{"fd00::100"} })
		}, []string{"unhealthy: virtual IPs: 10.0.0.100 is on cp1, and fd00::100 on cp3"}},
		"no holder of the second address": {func(seen *controlPlane) {
			seen.endpoint.Others = []string{"fd00::100"}
		}, []string{"unhealthy: virtual IP fd00::100: no balancer has it"}},
		"a stopped HAProxy": {func(seen *controlPlane) {
			changeBalancer(seen, "cp2", func(b *haproxy.Balancer) {
				b.HAProxy, b.Answers = "inactive", false
				b.Out = map[string]string{"cp1": "HAProxy does not answer", "cp2": "HAProxy does not answer"}
			})
		}, []string{"unhealthy: balancer cp2 (10.0.0.12): kube-endpoint-haproxy.service is inactive"}},
		"a stopped scheduler": {func(seen *controlPlane) {
			changeReplica(seen, "cp2", func(r *listedReplica) {
				r.Components[2].Healthy, r.Components[2].Health = false, "kube-scheduler.service is inactive"
			})
		}, []string{"unhealthy: replica cp2 (10.0.0.12): kube-scheduler: kube-scheduler.service is inactive"}},
		"a replica that is drained on one balancer": {func(seen *controlPlane) {
			changeBalancer(seen, "cp3", func(b *haproxy.Balancer) { b.Out["cp1"] = "out of rotation: DRAIN L7OK" })
		}, []string{"unhealthy: replica cp1 (10.0.0.11): out of rotation: DRAIN L7OK, reported by balancer cp3"}},
		"a replica that no balancer lists": {func(seen *controlPlane) {
			delete(seen.endpoint.Replicas, "cp2")
			changeReplica(seen, "cp2", func(r *listedReplica) { r.Listed = "" })
		}, []string{"unhealthy: replica cp2 (10.0.0.12): not registered, reported by balancers cp1, cp2 and cp3"}},
		"a listed replica that is gone": {func(seen *controlPlane) {
			changeReplica(seen, "cp2", func(r *listedReplica) { r.Health = controlplane.Health{Address: "10.0.0.12"} })
		}, []string{"unhealthy: replica cp2 (10.0.0.12): the balancers list it, but its machine has no replica"}},
		"a listed replica is another's": {func(seen *controlPlane) {
			changeReplica(seen, "cp2", func(r *listedReplica) {
				r.Health = controlplane.Health{Address: "10.0.0.12", Foreign: `replica "x" of cluster "other"`}
			})
		}, []string{`unhealthy: replica cp2 (10.0.0.12): its machine has replica "x" of cluster "other"`}},
		"no replica": {func(seen *controlPlane) { seen.replicas, seen.endpoint.Replicas = nil, nil }, []string{
			"unhealthy: endpoint 10.0.0.100: no replica is registered",
		}},
		"an external endpoint": {behindExternal, nil},
		"an external endpoint that does not answer": {func(seen *controlPlane) {
			behindExternal(seen)
			seen.endpoint.targets.Silence = "connection refused"
		}, []string{"unhealthy: endpoint https://10.0.0.100:6443: it does not answer: connection refused"}},
		"an external endpoint with a replica that is not ready": {func(seen *controlPlane) {
			behindExternal(seen)
			seen.endpoint.targets.NotReady["cp2"] = "it answers 500"
		}, []string{"unhealthy: replica cp2 (10.0.0.12): not ready: it answers 500"}},
		"an external endpoint without a replica of its own": {func(seen *controlPlane) {
			behindExternal(seen)
			delete(seen.endpoint.Replicas, "cp3")
		}, []string{"unhealthy: replica cp3 (10.0.0.13): it is not a target of the endpoint"}},
		"certificates near their end": {func(seen *controlPlane) {
			seen.authorities["kubernetes"] = nearEnd
			seen.etcd.Machines[0].CertificateExpiry = observed.Add(-time.Hour)
			changeReplica(seen, "cp1", func(r *listedReplica) {
				r.Components[1].CertificateExpiry, r.CertificateExpiry = nearEnd, nearEnd
			})
			changeReplica(seen, "cp3", func(r *listedReplica) { r.CertificateExpiry = nearEnd })
		}, []string{
			"expiring: CA kubernetes: a certificate expires on 2026-12-01, in 9 days",
			"expiring: etcd member cp1 (10.0.0.11): a certificate expired on 2026-11-22",
			"expiring: replica cp1 (10.0.0.11): kube-controller-manager: a certificate expires on 2026-12-01, in 9 days",
			"expiring: replica cp3 (10.0.0.13): admin.conf: a certificate expires on 2026-12-01, in 9 days",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			seen := wholeControlPlane()
			if c.change != nil {
				c.change(&seen)
			}
			var got []string
			for _, observed := range issuesOf(seen, 30, observed) {
				got = append(got, observed.kind+": "+observed.text)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("issues\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(c.want, "\n  "))
			}
		})
	}
}

// TestCertificateDays checks that the argument sets the limit.
func TestCertificateDays(t *testing.T) {
	seen := wholeControlPlane()
	seen.etcd.Machines[0].CertificateExpiry = nearEnd
	// 3 members, and 3 components of 3 replicas.
	for days, want := range map[int64]int{0: 0, 9: 0, 10: 1, 365: 1, 366: 12} {
		if got := issuesOf(seen, days, observed); len(got) != want {
			t.Errorf("within %d days: %v", days, got)
		}
	}
}

func TestDaysUntil(t *testing.T) {
	for left, want := range map[time.Duration]int64{
		0: 0, time.Hour: 0, 24 * time.Hour: 1, 47 * time.Hour: 1, -time.Hour: -1, -24 * time.Hour: -1, -25 * time.Hour: -2,
	} {
		if got := daysUntil(observed.Add(left), observed); got != want {
			t.Errorf("%s are %d days, want %d", left, got, want)
		}
	}
}

func TestSeenReplicas(t *testing.T) {
	observed := []controlplane.Health{
		{Address: "10.0.0.11", Name: "cp1"},
		{Address: "10.0.0.12", Name: "cp2"},              // no balancer lists it
		{Address: "10.0.0.13", Err: host.ErrUnreachable}, // a replica according to the balancers
		{Address: "10.0.0.14", Err: host.ErrUnreachable}, // not listed anywhere
		{Address: "10.0.0.15"},                           // bare
	}
	listed := map[string]string{
		"cp1": "10.0.0.11:6443", "cp3": "10.0.0.13:6443", "cp5": "10.0.0.15:6443",
		"old": "[fd00::9]:6443",
	}
	got := listedReplicas(observed, listed)
	for name, want := range map[string]listedReplica{
		"cp1": {Health: observed[0], Listed: "10.0.0.11:6443"},
		"cp2": {Health: observed[1]},
		"cp3": {Health: observed[2], Listed: "10.0.0.13:6443"},
		"cp5": {Health: observed[4], Listed: "10.0.0.15:6443"},
		"old": {Health: controlplane.Health{Address: "fd00::9"}, Listed: "[fd00::9]:6443"},
	} {
		if r, ok := got[name]; !ok || fmt.Sprint(r) != fmt.Sprint(want) {
			t.Errorf("%s: %+v, want %+v", name, r, want)
		}
	}
	if len(got) != 5 {
		t.Errorf("%d replicas: %v", len(got), got)
	}
	if more := unnamedMachines(listed, []string{"10.0.0.11", "10.0.0.13"}); !slices.Equal(more, []string{
		"10.0.0.15",
		"fd00::9",
	}) {
		t.Errorf("further machines %q", more)
	}
}
