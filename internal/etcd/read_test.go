package etcd

import (
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership/membershiptest"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/volume"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

func specOf(name string) Spec {
	return Spec{Spec: machine.Spec{
		Name: name, Host: (&host.Pool{}).Host(host.Target{Address: blank(name).Address}),
		Bundle: &pki.Bundle{ClusterID: testCluster},
	}}
}

// TestIsGone: a member is gone only if its machine answers and nothing of the member is on it,
// and no member list contains it.
func TestIsGone(t *testing.T) {
	v := membershiptest.ClusterOf("Lhh")
	stranger := established("cp9")
	stranger.Record = &machine.Record{ClusterID: "other", Name: "cp9"}
	for _, c := range []struct {
		name    string
		machine machine.Observed
		view    *membership.View
		want    bool
	}{
		{"not listed, nothing on the machine", blank("cp9"), &v, true},
		{"not listed, another cluster's machine now", stranger, &v, true},
		{"not listed, its data is still there", established("cp9"), &v, false},
		{"not listed, unreachable", lost("cp9"), &v, false},
		{"listed, nothing on the machine", blank("cp1"), &v, false},
		{"listed and there", established("cp1"), &v, false},
		{"nobody answers, nothing on the machine", blank("cp9"), nil, true},
		{"nobody answers, its data is there", established("cp9"), nil, false},
		{"nobody answers, another cluster's machine now", stranger, nil, false},
		{"nobody answers, unreachable", lost("cp9"), nil, false},
	} {
		if got := isGone(specOf(c.machine.Name), c.machine, c.view); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// TestIsGoneWithVolume: the data of a member with a volume may be on a disk that is not attached now. Without an answer
// of the cluster, the member is gone only if its volume says that it was removed.
func TestIsGoneWithVolume(t *testing.T) {
	v := membershiptest.ClusterOf("Lhh")
	attached := func(name string, state volume.State) machine.Observed {
		m := blank("cp1")
		m.Volume.Identity = &volume.Identity{ClusterID: testCluster, Name: name, MemberID: "b", State: state}
		return m
	}
	wrong := blank("cp1")
	wrong.Volume = volume.Observed{Device: "/dev/sdb", Kind: volume.Nothing}
	for _, c := range []struct {
		name    string
		machine machine.Observed
		view    *membership.View
		want    bool
	}{
		{"nobody answers, the volume is not attached", blank("cp1"), nil, false},
		{"nobody answers, a blank disk is attached", wrong, nil, false},
		{"nobody answers, the volume is not mounted", attached("cp1", volume.Member), nil, false},
		{"nobody answers, the volume of another member is attached", attached("cp2", volume.Member), nil, false},
		{"nobody answers, another member was removed", attached("cp2", volume.Removed), nil, false},
		{"nobody answers, the volume says that it was removed", attached("cp1", volume.Removed), nil, true},
		{"listed, the volume is not attached", blank("cp1"), &v, false},
		{"not listed, the volume is not attached", blank("cp9"), &v, true},
	} {
		s := specOf(c.machine.Name)
		s.Volume = &volume.Spec{Device: "/dev/sdb", MountPath: "/srv/etcd"}
		if got := isGone(s, c.machine, c.view); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestClusterDrift(t *testing.T) {
	of := func(cluster string) machine.Observed {
		f := established("cp1")
		f.Record.EtcdCluster = cluster
		return f
	}
	v := membershiptest.ClusterOf("Lhh")
	one, two := map[string]uint64{"10.0.0.1": 1}, map[string]uint64{"10.0.0.1": 1, "10.0.0.2": 2}
	for _, c := range []struct {
		name    string
		machine machine.Observed
		view    *membership.View
		ids     map[string]uint64
		want    []string
	}{
		{"one cluster", of("1"), &v, one, nil},
		{"nobody answers", of("2"), nil, nil, nil},
		{"two are served", of("1"), &v, two, []string{"do not belong to one etcd cluster"}},
		{"data of an earlier one", of("2"), &v, one, []string{"has data of etcd cluster 2"}},
		{"both", of("2"), &v, two, []string{"do not belong to one", "has data of etcd cluster 2"}},
	} {
		got := clusterDrift(specOf("cp1"), c.machine, c.view, c.ids)
		if len(got) != len(c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
			continue
		}
		for i, want := range c.want {
			if !strings.HasPrefix(got[i], "cp1: ") || !strings.Contains(got[i], want) {
				t.Errorf("%s: %q, want %q", c.name, got[i], want)
			}
		}
	}
}
