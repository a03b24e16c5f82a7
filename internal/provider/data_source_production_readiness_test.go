package provider

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/client"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd"
	etcdclient "github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/health"
	"github.com/kubequorum/terraform-provider-kube/internal/health/healthtest"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/readiness"
)

// wholeReview returns healthtest.ControlPlane with the data of a review.
func wholeReview(t *testing.T) reviewData {
	t.Helper()
	here, _ := bundles(t)
	r := reviewData{ControlPlane: healthtest.ControlPlane(), bundle: here}
	for _, m := range r.Etcd.Machines {
		r.members = append(r.members, etcd.ObservedMember{
			Address: m.Address, Process: host.Process{Running: true, Flags: map[string]string{"name": m.Member}}, OwnDisk: true,
			Disk: "/data", Memory: true, Fsync: time.Millisecond, Fsyncs: 9,
			Timers:    []etcd.Timer{{Name: "etcd.timer", Command: "x", Ran: healthtest.Now}},
			Scheduled: &etcd.Scheduled{Uploads: true},
			Devices:   []string{"sdb"}, Sharing: []string{"/"}, Profiles: etcdclient.Answer{Status: 404},
			Compaction: etcd.Compaction{Revision: 7, Last: healthtest.Now, Uptime: time.Hour},
			TLS:        etcd.ObservedTLS{Clients: etcd.ObservedSide{Key: "a"}, Peers: etcd.ObservedSide{Key: "b"}},
			Scrapers:   []host.Client{{Port: 2381, Address: "10.0.0.9", Ago: time.Second}},
		})
	}
	for _, name := range []string{"cp1", "cp2", "cp3"} {
		seen := r.Replicas[name]
		r.replicas = append(r.replicas, controlplane.MachineReview{
			Health: seen.Health, Files: map[string]string{"audit-policy-file": "rules: []"},
			Processes: map[string]host.Process{
				release.APIServer: {Running: true, Flags: map[string]string{"v": "2"}},
				release.Scheduler: {
					MemoryMax: "1", CPUWeight: "200", CPURequest: true, Unseen: "no cgroup", NotInEffect: []string{"x"},
				},
			},
			Profiles: map[string]client.Answer{release.APIServer: {Status: 404}},
			Scrapers: map[string][]host.Client{release.Scheduler: {{Address: "127.0.0.1", Process: "agent"}}},
			Scraped:  &controlplane.Scrape{User: "prometheus", Address: "10.0.0.9", At: healthtest.Now.Add(-time.Minute)},
		})
	}
	r.alerts = []client.Alert{
		{Name: "A", Expr: "up == 0"}, {Name: "B", Expr: "apiserver_client_certificate_expiration_seconds_bucket < 1"},
	}
	r.stored = map[string]controlplane.Stored{"secrets": {Objects: 3, Clear: 1}}
	r.nodes = []controlplane.Node{{Name: "cp1", Addresses: []string{"10.0.0.11"}, Taints: []string{"a:NoSchedule"}}}
	return r
}

func TestQueriesCertificates(t *testing.T) {
	for query, want := range map[string]bool{
		"apiserver_client_certificate_expiration_seconds_bucket{le=\"1\"} > 0": true,
		"min(kube_certificate_not_after_timestamp_seconds) - time() < 86400":   true,
		"kube_served_certificate_not_after_timestamp_seconds < time()":         true,
		"kubelet_certificate_manager_client_ttl_seconds < 604800":              true,
		"certmanager_certificate_expiration_timestamp_seconds - time() < 1":    false,
		"probe_ssl_earliest_cert_expiry - time() < 1":                          false,
		"x509_cert_not_after - time() < 1":                                     false,
		`up{job="apiserver_client_certificate_expiration_seconds"} == 0`:       false,
		"up{job='kubelet_certificate_manager_client_ttl_seconds'} == 0":        false,
		"apiserver_client_certificate_expiration_seconds_total":                false,
		`up{a="\"", b="x"} and kubelet_certificate_manager_server_ttl_seconds`: true,
		"": false,
	} {
		if got := queriesCertificates(query); got != want {
			t.Errorf("%s: %v", query, got)
		}
	}
}

func TestEvidence(t *testing.T) {
	e := wholeReview(t).evidence(healthtest.Now)
	member, replica := e.Members[0], e.Replicas[2]
	switch {
	case e.Etcd != readiness.Etcd{Voters: 3, Healthy: 3}, len(e.Members) != 3, len(e.Replicas) != 3,
		e.ReplicasUnread+e.NodesUnread != "":
		t.Errorf("%+v", e)
	case member.Name != "cp1" || !member.Process.Running || !member.OwnDisk || !member.Memory || member.Disk != "/data" ||
		member.Quota != 2<<30 || member.DBSize != 20<<20 || member.Fsyncs != 9 || len(member.Schedules) != 1 ||
		member.Scheduled == nil || !member.Scheduled.Uploads || member.FsyncUnread != "":
		t.Errorf("member %+v", member)
	case replica.Name != "cp3" || replica.APIServer.Flags["v"] != "2" || replica.Scheduler.MemoryMax != "1" ||
		replica.Files["audit-policy-file"] == "":
		t.Errorf("replica %+v", replica)
	case len(e.Endpoint.InRotation) != 3 || e.Endpoint.Balancers != 3 || len(e.Endpoint.Holders) != 1 ||
		len(e.Endpoint.Unread) != 0:
		t.Errorf("endpoint %+v", e.Endpoint)
	case len(e.Certificates) != 7 || len(e.Nodes) != 1 || len(e.SignedOutside) != 0 || e.Encryption.Provider != "":
		t.Errorf("%+v", e)
	case len(member.Devices) != 1 || len(member.Sharing) != 1 || member.Profiling.Status != 404 ||
		member.Compaction != readiness.Compaction{Revision: 7, Last: healthtest.Now, Uptime: time.Hour} ||
		member.TLS.Unread != "" ||
		member.TLS.Clients.Key != "a" || member.TLS.Peers.Key != "b" ||
		member.Process.Scrapes.Last[0] != readiness.Scrape{By: "10.0.0.9", Ago: time.Second}:
		t.Errorf("member %+v", member)
	case replica.Scheduler.CPUWeight != "200" || !replica.Scheduler.CPURequest ||
		replica.Scheduler.Unseen != "no cgroup" || len(replica.Scheduler.NotInEffect) != 1 ||
		replica.Profiling[release.APIServer].Status != 404 ||
		replica.APIServer.Scrapes.Last[0] != readiness.Scrape{By: "prometheus (10.0.0.9)", Ago: time.Minute} ||
		replica.Scheduler.Scrapes.Last[0].By != "agent on the machine" || len(replica.ControllerManager.Scrapes.Last) != 0:
		t.Errorf("replica %+v", replica)
	case e.Alerts.Rules != 2 || len(e.Alerts.Certificates) != 1 || e.Alerts.Certificates[0] != "B" ||
		e.Encryption.Stored["secrets"].Clear != 1:
		t.Errorf("alerts %+v, encryption %+v", e.Alerts, e.Encryption)
	}
	for name, c := range map[string]struct {
		change func(r *reviewData)
		want   func(e readiness.Evidence) bool
	}{
		"a dead machine": {
			func(r *reviewData) {
				healthtest.LoseMachine(&r.ControlPlane, 1, "cp2")
				r.members[1].Address, r.replicas[1].Address = "", ""
			},
			func(e readiness.Evidence) bool {
				return strings.Contains(e.Members[1].Unread, "unreachable over SSH") && strings.Contains(e.Replicas[1].Unread,
					"unreachable over SSH") &&
					e.Members[0].Unread == "" && e.Etcd.Healthy == 2 && len(e.Endpoint.Unread) == 1 && len(e.Endpoint.InRotation) == 2
			},
		},
		"no quorum": {
			func(r *reviewData) { r.Etcd.Survey, r.Etcd.Silence = membership.Survey{}, etcdSilence },
			func(e readiness.Evidence) bool {
				return strings.Contains(e.Etcd.Unread, "no member answers") && len(e.Members) == 3 && e.Members[2].Name == "cp3" &&
					e.Members[2].Process.Running
			},
		},
		"an address that kube-vip announces": {
			func(r *reviewData) {
				healthtest.External(&r.ControlPlane)
				r.Endpoint.Kind, r.Endpoint.Announced = endpoint.KubeVIP, true
			},
			func(e readiness.Evidence) bool {
				return e.Endpoint.Kind == "kube_vip" && e.Endpoint.Announced && len(e.Endpoint.InRotation) == 3
			},
		},
		"no metrics": {
			func(r *reviewData) { r.members[0].FsyncErr = errors.New("connection refused") },
			func(e readiness.Evidence) bool { return e.Members[0].FsyncUnread == "connection refused" },
		},
		"nothing but reasons": {
			func(r *reviewData) {
				broken := errors.New("broken")
				r.alertErr, r.storeErr = broken, broken
				m := &r.members[0]
				m.Compaction.Err, m.Profiles.Err, m.TLS.Err, m.ScrapersErr = broken, broken, broken, broken
				p := &r.replicas[0]
				p.ScrapersErr, p.ScrapedErr, p.Scraped = broken, broken, nil
				p.Profiles[release.APIServer] = client.Answer{Err: broken}
			},
			func(e readiness.Evidence) bool {
				m, p := e.Members[0], e.Replicas[0]
				return !slices.ContainsFunc([]string{
					e.Alerts.Unread, e.Encryption.StoredUnread, m.Compaction.Unread, m.Profiling.Unread, m.TLS.Unread,
					m.Process.Scrapes.Unseen, p.APIServer.Scrapes.Unseen, p.Scheduler.Scrapes.Unseen,
					p.Profiling[release.APIServer].Unread,
				}, func(why string) bool { return why != "broken" })
			},
		},
		"a member that the arguments do not name": {
			func(r *reviewData) { r.Etcd.Machines = r.Etcd.Machines[:2] },
			func(e readiness.Evidence) bool { return strings.Contains(e.Members[2].Unread, "argument etcd") },
		},
		"a replica that is not there": {
			func(r *reviewData) {
				healthtest.ChangeReplica(&r.ControlPlane, "cp2", func(s *health.Replica) { s.Name = "" })
			},
			func(e readiness.Evidence) bool {
				return e.Replicas[1].Unread != "" && e.Replicas[1].APIServer.Flags == nil
			},
		},
		"certificates that cannot be read": {
			func(r *reviewData) {
				r.Etcd.Machines[0].CertificatesUnread = []string{"/peer.crt"}
				healthtest.ChangeReplica(&r.ControlPlane, "cp2", func(s *health.Replica) {
					s.CertificateExpiry, s.CertificatesUnread = time.Time{}, []string{"/a.crt", "/b.crt"}
				})
				r.replicas[0].Kubelet = true
			},
			func(e readiness.Evidence) bool {
				return len(e.Certificates) == 6 && e.Replicas[0].Kubelet && slices.Equal(e.CertificatesUnread, []string{
					"etcd member cp1 (10.0.0.11): /peer.crt", "replica cp2 (10.0.0.12): /a.crt, /b.crt",
				})
			},
		},
		"no nodes": {
			func(r *reviewData) { r.nodes, r.nodesErr = nil, errors.New("forbidden") },
			func(e readiness.Evidence) bool { return strings.Contains(e.NodesUnread, "forbidden") },
		},
		"no replica": {
			func(r *reviewData) { r.Replicas, r.Endpoint.Replicas = nil, nil },
			func(e readiness.Evidence) bool { return e.ReplicasUnread != "" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := wholeReview(t)
			c.change(&r)
			if e := r.evidence(healthtest.Now); !c.want(e) {
				t.Errorf("%+v", e)
			}
		})
	}
}

// TestProductionReadinessUnreachable checks that items of an unreachable control plane are
// unknown, without an error.
func TestProductionReadinessUnreachable(t *testing.T) {
	state, output, took := readNowhere(t, "kube_production_readiness", nil)
	if output != "" || took > 3*time.Second {
		t.Fatalf("%s after %s", output, took)
	}
	var items []tftypes.Value
	if err := state["items"].As(&items); err != nil {
		t.Fatal(err)
	}
	for _, item := range items {
		id, status, evidence := plainly(t, in(t, item, "id")), plainly(t, in(t, item, "status")),
			plainly(t, in(t, item, "evidence"))
		want := "unknown"
		switch id {
		case "encryption": // known from the bundle
			want = "fail"
		case "certificates": // the authorities are in the bundle
			want = "fail unknown"
		}
		if !strings.Contains(want, status) || evidence == "" {
			t.Errorf("%s is %s: %s", id, status, evidence)
		}
	}
	if plainly(t, state["score"]) != "0" || plainly(t, state["total"]) != "20" || plainly(t, state["ready"]) != "false" {
		t.Errorf("answered %v", state)
	}
	t.Log(plainly(t, state["summary"]))
}
