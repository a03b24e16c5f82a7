package etcd

import (
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// TestReplaced verifies that a member that is listed and serves its own data keeps its ID,
// and that a member joins again if it was removed, or if its data is corrupt or of an
// earlier cluster. If no member answers, nothing is known.
func TestReplaced(t *testing.T) {
	s := Spec{Spec: machine.Spec{Name: "cp1", Host: (&host.Pool{}).Host(host.Target{Address: "10.0.0.11"})}}
	own := machine.Observed{Record: &machine.Record{EtcdCluster: "7"}}
	listed := func(alarms ...string) *membership.View {
		return &membership.View{
			ClusterID: 7,
			Members:   []membership.Member{{ID: 1, Name: "cp1", PeerURLs: []string{s.PeerURL()}, Healthy: true, Alarms: alarms}},
		}
	}
	silent := listed()
	silent.Members[0].Healthy = false
	with := func(id string) machine.Observed {
		return machine.Observed{Record: &machine.Record{EtcdCluster: "7", MemberID: id}}
	}
	for name, test := range map[string]struct {
		f    machine.Observed
		v    *membership.View
		want bool
	}{
		"listed":                             {own, listed(), false},
		"nobody answers":                     {own, nil, false},
		"no space":                           {own, listed("NOSPACE"), false},
		"corrupt":                            {own, listed("CORRUPT"), true},
		"removed":                            {own, &membership.View{ClusterID: 7}, true},
		"of an earlier cluster":              {machine.Observed{Record: &machine.Record{EtcdCluster: "6"}}, listed(), true},
		"without a record":                   {machine.Observed{}, listed(), false},
		"silent":                             {with("1"), silent, false},
		"silent, data of another member":     {with("9"), silent, true},
		"serving, another member's record":   {with("9"), listed(), false},
		"silent, no member is recorded":      {own, silent, false},
		"silent and without a record at all": {machine.Observed{}, silent, false},
	} {
		if got := replaced(s, test.f, test.v); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if machine.Rebuilt(machine.Observed{Data: true}) || !machine.Rebuilt(machine.Observed{}) ||
		!machine.Rebuilt(machine.Observed{Data: true, Pending: true}) {
		t.Error("a machine without data, or with a member that never established, counts as rebuilt, and no other")
	}
}
