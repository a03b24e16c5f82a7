package etcd

import (
	"errors"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// TestMayTakeUp: what the machine has decides first, then the cluster and the state.
func TestMayTakeUp(t *testing.T) {
	pool, err := host.NewPool(host.Config{})
	if err != nil {
		t.Fatal(err)
	}
	at := pool.Host(host.Target{Address: "10.0.0.12"})
	whole := machine.ArchivedData{There: true, SameDisk: true, ID: machine.ID{Member: 2, Cluster: 0xc}}
	v := membership.View{ClusterID: 0xc, Members: []membership.Member{
		{ID: 2, Name: "cp2", PeerURLs: []string{"https://10.0.0.12:2380"}},
	}}
	for name, c := range map[string]struct {
		change func(*Spec, *machine.Observed, *machine.ArchivedData)
		want   string
	}{
		"all fits": {func(*Spec, *machine.Observed, *machine.ArchivedData) {}, ""},
		"nothing there": {
			func(_ *Spec, _ *machine.Observed, a *machine.ArchivedData) { a.There = false },
			"there is no data of a member",
		},
		"no log": {func(_ *Spec, _ *machine.Observed, a *machine.ArchivedData) { a.Err = errors.New("no log") }, "no log"},
		"links":  {func(_ *Spec, _ *machine.Observed, a *machine.ArchivedData) { a.Links = true }, "symbolic links"},
		"another file system": {
			func(_ *Spec, _ *machine.Observed, a *machine.ArchivedData) { a.SameDisk = false },
			"not on the file system of /var/lib/etcd",
		},
		"another cluster's machine": {func(_ *Spec, f *machine.Observed, _ *machine.ArchivedData) {
			f.Record = &machine.Record{ClusterID: "b", ClusterName: "other"}
		}, `of another cluster, "other"`},
		"the cluster's machine": {func(_ *Spec, f *machine.Observed, _ *machine.ArchivedData) {
			f.Record = &machine.Record{ClusterID: "a"}
		}, ""},
		"it runs": {func(_ *Spec, f *machine.Observed, _ *machine.ArchivedData) { f.Unit.Active = "active" }, `"cp2" runs`},
		"another in the state": {
			func(s *Spec, _ *machine.Observed, _ *machine.ArchivedData) { s.LastID = "f" },
			"the state has member f",
		},
		"the same in the state": {func(s *Spec, _ *machine.Observed, _ *machine.ArchivedData) {
			s.LastID, s.LastMachine = "2", "m"
		}, ""},
		"another machine": {
			func(s *Spec, _ *machine.Observed, _ *machine.ArchivedData) { s.LastMachine = "n" },
			"last ran on machine n",
		},
		"removed": {
			func(_ *Spec, _ *machine.Observed, a *machine.ArchivedData) { a.ID.Member = 3 },
			"which was removed from the cluster",
		},
	} {
		s := Spec{Spec: machine.Spec{
			Name: "cp2", Host: at, Bundle: &pki.Bundle{ClusterID: "a"}, ArchivedDataDir: "/var/lib/etcd-archive/x",
		}}
		f, a := machine.Observed{Facts: host.Facts{MachineID: "m"}}, whole
		c.change(&s, &f, &a)
		reason, next := mayTakeUp(s, f, a, v)
		if !strings.Contains(reason, c.want) || (reason == "") != (c.want == "") || (next == "") != (reason == "") {
			t.Errorf("%s: %q, next %q, want %q", name, reason, next, c.want)
		}
	}
}
