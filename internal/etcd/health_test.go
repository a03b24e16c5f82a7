package etcd

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/release"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/poll"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

// TestMachineOf verifies that a machine is interpreted without its member's spec.
func TestMachineOf(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	bundle, err := pki.Generate(pki.Options{ClusterName: "prod", Now: now})
	if err != nil {
		t.Fatal(err)
	}
	pair := func(leaf pki.Leaf, validity time.Duration) host.FileState {
		issued, err := bundle.Issue(leaf, now, validity)
		if err != nil {
			t.Fatal(err)
		}
		return host.FileState{Content: issued.Certificate}
	}
	files := func(cluster string) map[string]host.FileState {
		return map[string]host.FileState{
			layout.RecordPath: {Content: fmt.Sprintf(`{"cluster_id": %q, "cluster_name": "other", "name": "cp1"}`, cluster)},
			layout.UnitPath: {Content: "[Service]\nExecStart=/opt/kube/etcd/3.5.35/etcd \\\n  --name=cp1 \\\n  " +
				"--quota-backend-bytes=16777216\n"},
			machine.CertificatePath(pki.EtcdServer("", "")):      pair(pki.EtcdServer("cp1", "10.0.0.11"), 48*time.Hour),
			machine.CertificatePath(pki.EtcdPeer("", "")):        pair(pki.EtcdPeer("cp1", "10.0.0.11"), 24*time.Hour),
			machine.CertificatePath(pki.EtcdHealthcheckClient()): pair(pki.EtcdHealthcheckClient(), 72*time.Hour),
		}
	}
	active := map[string]host.UnitState{layout.Unit: {Load: "loaded", Active: "active"}}
	damaged := files(bundle.ClusterID)
	delete(damaged, machine.CertificatePath(pki.EtcdServer("", "")))
	damaged[machine.CertificatePath(pki.EtcdPeer("", ""))] = host.FileState{Content: "no certificate"}
	for name, c := range map[string]struct {
		facts host.Facts
		err   error
		want  Machine
	}{
		"a member": {
			facts: host.Facts{Files: files(bundle.ClusterID), Units: active},
			want:  Machine{Member: "cp1", Unit: "active", Quota: 16 << 20, CertificateExpiry: now.Add(24 * time.Hour)},
		},
		"a member without a certificate": {
			facts: host.Facts{Files: damaged, Units: active},
			want: Machine{
				Member: "cp1", Unit: "active", Quota: 16 << 20, CertificateExpiry: now.Add(72 * time.Hour),
				CertificatesUnread: []string{
					machine.CertificatePath(pki.EtcdServer("", "")), machine.CertificatePath(pki.EtcdPeer("", "")),
				},
			},
		},
		"another cluster's": {
			facts: host.Facts{Files: files("ff"), Units: active},
			want: Machine{
				Foreign: `an etcd member of another cluster, "other"`, Unit: "active", Quota: 16 << 20,
				CertificateExpiry: now.Add(24 * time.Hour),
			},
		},
		"a record that somebody wrote": {
			facts: host.Facts{Files: map[string]host.FileState{
				layout.RecordPath: {Content: fmt.Sprintf(`{"cluster_id": %q, "name": "$(id)"}`, bundle.ClusterID)},
			}},
			want: Machine{
				Foreign: "an invalid /etc/etcd/member.json: name is \"$(id)\"", Quota: release.DefaultQuota,
			},
		},
		"a failed snapshot": {
			facts: host.Facts{
				Files: map[string]host.FileState{snapshot.ServicePath: {Content: systemd.Managed + "\n[Unit]\n"}},
				Units: map[string]host.UnitState{snapshot.Service: {Load: "loaded", Active: "failed", Result: "exit-code"}},
			},
			want: Machine{Quota: release.DefaultQuota, SnapshotFailed: "exit-code"},
		},
		"somebody else's failed snapshot": {
			facts: host.Facts{
				Files: map[string]host.FileState{snapshot.ServicePath: {Content: "[Unit]\n"}},
				Units: map[string]host.UnitState{snapshot.Service: {Load: "loaded", Active: "failed", Result: "exit-code"}},
			},
			want: Machine{Quota: release.DefaultQuota},
		},
		"a snapshot under way": {
			facts: host.Facts{
				Files: map[string]host.FileState{snapshot.ServicePath: {Content: systemd.Managed + "\n[Unit]\n"}},
				Units: map[string]host.UnitState{snapshot.Service: {Load: "loaded", Active: "activating", Result: "success"}},
			},
			want: Machine{Quota: release.DefaultQuota},
		},
		"a bare machine": {
			facts: host.Facts{Units: map[string]host.UnitState{layout.Unit: {Load: "not-found", Active: "inactive"}}},
			want:  Machine{Quota: release.DefaultQuota},
		},
		"a dead one": {err: host.ErrUnreachable, want: Machine{Err: host.ErrUnreachable}},
	} {
		t.Run(name, func(t *testing.T) {
			c.want.Address = "10.0.0.11"
			got := machineOf("10.0.0.11", bundle.ClusterID, c.facts, c.err)
			if !errors.Is(got.Err, c.want.Err) ||
				got.CertificateExpiry.Truncate(time.Minute) != c.want.CertificateExpiry.Truncate(time.Minute) {
				t.Errorf("%+v, want %+v", got, c.want)
			}
			got.CertificateExpiry, c.want.CertificateExpiry = time.Time{}, time.Time{}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

func TestQuotaOf(t *testing.T) {
	h := Health{Machines: []Machine{
		{Address: "10.0.0.11", Quota: release.Quota("8589934592")},
		{Address: "10.0.0.12", Quota: release.Quota("")},
		{Address: "10.0.0.13", Err: host.ErrUnreachable},
		{Address: "10.0.0.14", Quota: release.Quota("-1")},
		{Address: "10.0.0.15", Quota: release.Quota("0")},
	}}
	for _, c := range []struct {
		member membership.MemberStatus
		want   int64
	}{
		// the running value takes precedence over the flags on disk
		{membership.MemberStatus{Address: "10.0.0.11", Member: membership.Member{DBQuota: 2 << 30}}, 2 << 30},
		{membership.MemberStatus{Address: "10.0.0.11"}, 8 << 30},
		{membership.MemberStatus{Address: "10.0.0.12"}, 2 << 30},
		{membership.MemberStatus{Address: "10.0.0.13"}, 0},
		{membership.MemberStatus{Address: "10.0.0.14"}, -1},
		{membership.MemberStatus{Address: "10.0.0.15"}, 2 << 30},
		{membership.MemberStatus{Address: "10.0.0.99"}, 0},
	} {
		if got := h.QuotaOf(c.member); got != c.want {
			t.Errorf("quota of %+v is %d, want %d", c.member, got, c.want)
		}
	}
}

func TestVoting(t *testing.T) {
	s := membership.Survey{Members: []membership.MemberStatus{
		{Member: membership.Member{Name: "cp1", Healthy: true}},
		{Member: membership.Member{Name: "cp2", Healthy: true}, Leader: true},
		{Member: membership.Member{Name: "cp3"}},
		{Member: membership.Member{Name: "cp4", Healthy: true, Learner: true}},
	}}
	if voters, healthy, needed := s.Voting(); voters != 3 || healthy != 2 || needed != 2 {
		t.Errorf("%d voters, %d healthy, %d needed", voters, healthy, needed)
	}
	if leader := s.Leader(); leader != "cp2" {
		t.Errorf("leader %q", leader)
	}
}

// TestHealth verifies that a dead member is reported, and that without a quorum the
// machines are still reported.
func TestHealth(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1", "cp2", "cp3")
	f.create(specs, "cp1", "cp2", "cp3")
	f.calm(specs["cp1"])
	hosts := map[string]*host.Host{}
	for _, s := range specs {
		hosts[s.Host.Address()] = s.Host
	}
	f.kill("cp2", true)
	f.clusters = f.coordinator()
	var got Health
	done, err := poll.Until(f.context(), f.clusters.pace.Poll, f.clusters.pace.StallTimeout, func() (bool, error) {
		got = f.clusters.Health(f.context(), hosts, f.bundle)
		_, healthy, _ := got.Voting()
		return got.Silence == nil && got.Leader() != "" && got.ClusterVersion != "" && healthy == 2, nil
	})
	if !done || err != nil || len(got.Members) != 3 || len(got.Machines) != 3 {
		t.Fatalf("health = %+v, %v", got, err)
	}
	for _, m := range got.Members {
		if alive := m.Name != "cp2"; (m.DBSize > 0) != alive || (m.DBQuota > 0) != alive || m.ID == "" ||
			(got.QuotaOf(m) == 0) == alive {
			t.Errorf("member %+v, quota %d", m, got.QuotaOf(m))
		}
	}
	for _, m := range got.Machines {
		if alive := m.Address != f.address("cp2"); (m.Err == nil) != alive || (m.Member != "") != alive ||
			m.CertificateExpiry.IsZero() == alive {
			t.Errorf("machine %+v", m)
		}
	}
	f.kill("cp1", true)
	got = f.clusters.Health(f.context(), hosts, f.bundle)
	if !errors.Is(got.Silence, client.ErrNoAnswer) || len(got.Machines) != 3 || got.Leader() != "" {
		t.Errorf("without a quorum: %+v", got)
	}
}
