package health_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/haproxy"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/health"
	"github.com/kubequorum/terraform-provider-kube/internal/health/healthtest"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// nearEnd is the expiry of certificates that expire soon.
var nearEnd = healthtest.Now.Add(9*24*time.Hour + time.Hour)

func TestIssues(t *testing.T) {
	for name, c := range map[string]struct {
		change func(seen *health.ControlPlane)
		want   []string // "KIND: SENTENCE"
	}{
		"all well": {},
		"not asked": {func(seen *health.ControlPlane) {
			seen.NotQueried = "no settings"
		}, []string{"unreachable: the control plane was not queried: no settings"}},
		"a dead machine": {func(seen *health.ControlPlane) { healthtest.LoseMachine(seen, 1, "cp2") }, []string{
			"unreachable: machine 10.0.0.12 with balancer cp2, etcd member cp2 and replica cp2: connect to it: " +
				"unreachable over SSH: no answer in time",
			"unhealthy: etcd: the members report no leader",
			"unhealthy: etcd member cp2 (10.0.0.12) does not answer",
			"unhealthy: replica cp2 (10.0.0.12): out of rotation: DOWN L4TOUT, reported by balancers cp1 and cp3",
		}},
		"the dead machine has the address": {func(seen *health.ControlPlane) {
			healthtest.LoseMachine(seen, 0, "cp1")
		}, []string{
			"unreachable: machine 10.0.0.11 with balancer cp1, etcd member cp1 and replica cp1: connect to it: " +
				"unreachable over SSH: no answer in time",
			"unhealthy: etcd member cp1 (10.0.0.11) does not answer",
			"unreachable: virtual IP 10.0.0.100: no observed balancer has it; cp1 may have it",
			"unhealthy: replica cp1 (10.0.0.11): out of rotation: DOWN L4TOUT, reported by balancers cp2 and cp3",
		}},
		"a machine that is too slow": {func(seen *health.ControlPlane) {
			seen.Etcd.Machines[2] = etcd.Machine{Address: "10.0.0.13", Err: fmt.Errorf("observe the machine on 10.0.0.13: %w",
				context.DeadlineExceeded)}
		}, []string{"unreachable: machine 10.0.0.13 with etcd member cp3: no answer within the " +
			"time limit of this data source"}},
		"an untrusted machine": {func(seen *health.ControlPlane) {
			seen.Etcd.Machines[2] = etcd.Machine{
				Address: "10.0.0.13",
				Err:     fmt.Errorf("observe: %w", &host.HostKeyError{Address: "10.0.0.13", Seen: "ssh-ed25519 AAAA"}),
			}
		}, []string{`unreachable: machine 10.0.0.13 with etcd member cp3: ` +
			`host key of 10.0.0.13 is not known: it presented "ssh-ed25519 AAAA"`}},
		"no quorum": {func(seen *health.ControlPlane) {
			seen.Etcd.Survey, seen.Etcd.Silence = membership.Survey{}, errors.New("no member answers")
			seen.Etcd.Machines[0].Unit, seen.Etcd.Machines[1].Unit = "failed", ""
		}, []string{
			"unhealthy: etcd: no member answers",
			"unhealthy: etcd member cp1 (10.0.0.11): etcd.service is failed",
			"unhealthy: etcd member cp2 (10.0.0.12): etcd.service is missing",
		}},
		"nothing of etcd is reached": {func(seen *health.ControlPlane) {
			seen.Etcd = etcd.Health{
				Silence:  errors.New("no member answers"),
				Machines: []etcd.Machine{{Address: "10.0.0.21", Err: host.ErrUnreachable}},
			}
		}, []string{
			"unreachable: machine 10.0.0.21 with etcd member: unreachable over SSH",
			"unreachable: etcd: none of its machines can be observed, so its state is unknown",
		}},
		"a member that is not there yet": {func(seen *health.ControlPlane) {
			seen.Etcd.Machines = append(seen.Etcd.Machines, etcd.Machine{Address: "10.0.0.14"})
		}, []string{"unhealthy: machine 10.0.0.14: it has no etcd member of this cluster"}},
		"a snapshot that failed": {func(seen *health.ControlPlane) {
			seen.Etcd.Machines[1].SnapshotFailed = "exit-code"
		}, []string{
			"unhealthy: etcd member cp2 (10.0.0.12): the last run of etcd-snapshot.service failed (exit-code); " +
				"check its log (journalctl -u etcd-snapshot.service)",
		}},
		"another cluster's member": {func(seen *health.ControlPlane) {
			seen.Etcd.Machines = append(seen.Etcd.Machines, etcd.Machine{
				Address: "10.0.0.14", Foreign: `an etcd member of another cluster, "other"`, Unit: "active",
			})
		}, []string{`unhealthy: machine 10.0.0.14 has an etcd member of another cluster, "other"`}},
		"a member that was removed by hand": {
			func(seen *health.ControlPlane) { seen.Etcd.Members = seen.Etcd.Members[:2] },
			[]string{
				"unhealthy: etcd member cp3 (10.0.0.13): the cluster does not list it, but its machine still has its files",
			},
		},
		"a learner, and alarms": {func(seen *health.ControlPlane) {
			seen.Etcd.Members[2].Learner = true
			seen.Etcd.Members[0].Alarms = []string{"NOSPACE"}
			seen.Etcd.Orphans = []string{"alarm CORRUPT is raised for no specific member"}
		}, []string{
			"unhealthy: etcd: alarm CORRUPT is raised for no specific member",
			"unhealthy: etcd member cp1 (10.0.0.11) has alarm NOSPACE",
			"unhealthy: etcd member cp3 (10.0.0.13) is a learner that has not been promoted",
		}},
		"a database that is nearly full": {func(seen *health.ControlPlane) {
			seen.Etcd.Members[0].DBSize = 1740 << 20
		}, []string{
			"unhealthy: etcd member cp1 (10.0.0.11): its database uses 85 % of its quota of 2.0 GiB; " +
				"etcd refuses writes when the quota is exceeded",
		}},
		"no quota, no issue": {func(seen *health.ControlPlane) {
			seen.Etcd.Members[0].DBSize, seen.Etcd.Members[0].DBQuota = 1740<<20, -1
		}, nil},
		"two holders": {func(seen *health.ControlPlane) {
			healthtest.ChangeBalancer(seen, "cp3", func(b *haproxy.Balancer) { b.Holds = []string{"10.0.0.100"} })
		}, []string{
			"unhealthy: virtual IP 10.0.0.100: it is on cp1 and cp3 at the same time",
		}},
		"no holder": {func(seen *health.ControlPlane) {
			healthtest.ChangeBalancer(seen, "cp1", func(b *haproxy.Balancer) { b.Holds = nil })
		}, []string{
			"unhealthy: virtual IP 10.0.0.100: no balancer has it",
		}},
		"both addresses on one balancer": {func(seen *health.ControlPlane) {
			seen.Endpoint.Others = []string{"fd00::100"}
			healthtest.ChangeBalancer(seen, "cp1", func(b *haproxy.Balancer) { b.Holds = append(b.Holds, "fd00::100") })
		}, nil},
		"each address on another balancer": {func(seen *health.ControlPlane) {
			seen.Endpoint.Others = []string{"fd00::100"}
			healthtest.ChangeBalancer(seen, "cp3", func(b *haproxy.Balancer) { b.Holds = []string{"fd00::100"} })
		}, []string{"unhealthy: virtual IPs: 10.0.0.100 is on cp1, and fd00::100 on cp3"}},
		"no holder of the second address": {func(seen *health.ControlPlane) {
			seen.Endpoint.Others = []string{"fd00::100"}
		}, []string{"unhealthy: virtual IP fd00::100: no balancer has it"}},
		"a stopped HAProxy": {func(seen *health.ControlPlane) {
			healthtest.ChangeBalancer(seen, "cp2", func(b *haproxy.Balancer) {
				b.HAProxy, b.Answers = "inactive", false
				b.Out = map[string]string{"cp1": "HAProxy does not answer", "cp2": "HAProxy does not answer"}
			})
		}, []string{"unhealthy: balancer cp2 (10.0.0.12): kube-endpoint-haproxy.service is inactive"}},
		"a stopped scheduler": {func(seen *health.ControlPlane) {
			healthtest.ChangeReplica(seen, "cp2", func(r *health.Replica) {
				r.Components[2].Healthy, r.Components[2].Health = false, "kube-scheduler.service is inactive"
			})
		}, []string{"unhealthy: replica cp2 (10.0.0.12): kube-scheduler: kube-scheduler.service is inactive"}},
		"a replica that is drained on one balancer": {func(seen *health.ControlPlane) {
			healthtest.ChangeBalancer(seen, "cp3", func(b *haproxy.Balancer) { b.Out["cp1"] = "out of rotation: DRAIN L7OK" })
		}, []string{"unhealthy: replica cp1 (10.0.0.11): out of rotation: DRAIN L7OK, reported by balancer cp3"}},
		"a replica that no balancer lists": {func(seen *health.ControlPlane) {
			delete(seen.Endpoint.Replicas, "cp2")
			healthtest.ChangeReplica(seen, "cp2", func(r *health.Replica) { r.Listed = "" })
		}, []string{"unhealthy: replica cp2 (10.0.0.12): not registered, reported by balancers cp1, cp2 and cp3"}},
		"a listed replica that is gone": {func(seen *health.ControlPlane) {
			healthtest.ChangeReplica(seen, "cp2", func(r *health.Replica) {
				r.Health = controlplane.Health{Address: "10.0.0.12"}
			})
		}, []string{"unhealthy: replica cp2 (10.0.0.12): the balancers list it, but its machine has no replica"}},
		"a listed replica is another's": {func(seen *health.ControlPlane) {
			healthtest.ChangeReplica(seen, "cp2", func(r *health.Replica) {
				r.Health = controlplane.Health{Address: "10.0.0.12", Foreign: `replica "x" of cluster "other"`}
			})
		}, []string{`unhealthy: replica cp2 (10.0.0.12): its machine has replica "x" of cluster "other"`}},
		"no replica": {func(seen *health.ControlPlane) { seen.Replicas, seen.Endpoint.Replicas = nil, nil }, []string{
			"unhealthy: endpoint 10.0.0.100: no replica is registered",
		}},
		"an external endpoint": {healthtest.External, nil},
		"an external endpoint that does not answer": {func(seen *health.ControlPlane) {
			healthtest.External(seen)
			seen.Endpoint.Targets.Silence = "connection refused"
		}, []string{"unhealthy: endpoint https://10.0.0.100:6443: it does not answer: connection refused"}},
		"an external endpoint with a replica that is not ready": {func(seen *health.ControlPlane) {
			healthtest.External(seen)
			seen.Endpoint.Targets.NotReady["cp2"] = "it answers 500"
		}, []string{"unhealthy: replica cp2 (10.0.0.12): not ready: it answers 500"}},
		"an external endpoint without a replica of its own": {func(seen *health.ControlPlane) {
			healthtest.External(seen)
			delete(seen.Endpoint.Replicas, "cp3")
		}, []string{"unhealthy: replica cp3 (10.0.0.13): it is not a target of the endpoint"}},
		"certificates near their end": {func(seen *health.ControlPlane) {
			seen.Authorities["kubernetes"] = nearEnd
			seen.Etcd.Machines[0].CertificateExpiry = healthtest.Now.Add(-time.Hour)
			healthtest.ChangeReplica(seen, "cp1", func(r *health.Replica) {
				r.Components[1].CertificateExpiry, r.CertificateExpiry = nearEnd, nearEnd
			})
			healthtest.ChangeReplica(seen, "cp3", func(r *health.Replica) { r.CertificateExpiry = nearEnd })
		}, []string{
			"expiring: CA kubernetes: a certificate expires on 2026-12-01, in 9 days",
			"expiring: etcd member cp1 (10.0.0.11): a certificate expired on 2026-11-22",
			"expiring: replica cp1 (10.0.0.11): kube-controller-manager: a certificate expires on 2026-12-01, in 9 days",
			"expiring: replica cp3 (10.0.0.13): admin.conf: a certificate expires on 2026-12-01, in 9 days",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			seen := healthtest.ControlPlane()
			if c.change != nil {
				c.change(&seen)
			}
			var got []string
			for _, issue := range health.Issues(seen, 30, healthtest.Now) {
				got = append(got, issue.Kind+": "+issue.Text)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("issues\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(c.want, "\n  "))
			}
		})
	}
}
