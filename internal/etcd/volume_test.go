package etcd

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/volume"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// TestHolder: which machine may write to a volume that another one mounted last.
func TestHolder(t *testing.T) {
	pool, err := host.NewPool(host.Config{})
	if err != nil {
		t.Fatal(err)
	}
	at := func(address string) *host.Host { return pool.Host(host.Target{Address: address}) }
	const old = "22222222222222222222222222222222"
	identity := &volume.Identity{MachineID: old}
	observed := func(change func(*machine.Observed)) machine.Observed {
		m := machine.Observed{Address: "10.0.0.13", Facts: host.Facts{MachineID: old}}
		change(&m)
		return m
	}
	running := observed(func(m *machine.Observed) { m.Unit.Active = "active" })
	mounted := observed(func(m *machine.Observed) { m.Volume.At = "8:16" })
	idle := observed(func(*machine.Observed) {})
	silent := observed(func(m *machine.Observed) { m.Err = errors.New("no route"); m.Volume.At = "8:16" })
	rebuilt := observed(func(m *machine.Observed) { m.Facts.MachineID = "3"; m.Unit.Active = "active" })
	recorded := func(id, cluster, name string) machine.Observed {
		return observed(func(m *machine.Observed) {
			m.Facts.MachineID, m.Unit.Active = id, "active"
			m.Record = &machine.Record{Name: name, ClusterID: cluster}
		})
	}
	own, others := recorded(old, "a", "cp3"), recorded(old, "a", "cp9")
	stopped := own
	stopped.Unit.Active, stopped.Volume.At = "", "8:16"
	for name, c := range map[string]struct {
		former   bool
		identity *volume.Identity
		machine  machine.Observed
		want     volume.Holder
	}{
		"etcd runs there":                   {false, identity, running, volume.Using},
		"it is mounted there":               {false, identity, mounted, volume.Using},
		"idle":                              {false, identity, idle, volume.Idle},
		"silent":                            {false, identity, silent, volume.Unknown},
		"rebuilt":                           {false, identity, rebuilt, volume.Unknown},
		"leaves, etcd runs":                 {true, identity, own, volume.Leaving},
		"leaves, mounted":                   {true, identity, stopped, volume.Leaving},
		"leaves, idle":                      {true, identity, idle, volume.Idle},
		"leaves, silent":                    {true, identity, silent, volume.Unknown},
		"leaves, not attached here":         {true, nil, own, volume.Leaving},
		"leaves, idle and not attached":     {true, nil, idle, volume.Unknown},
		"etcd of nobody runs there":         {true, nil, running, volume.Unknown},
		"its record there was lost":         {true, identity, running, volume.Using},
		"mounted, and its record was lost":  {true, identity, mounted, volume.Using},
		"its former machine was rebuilt":    {true, identity, rebuilt, volume.Unknown},
		"its former machine is another's":   {true, nil, others, volume.Unknown},
		"its former machine has a neighbor": {true, identity, others, volume.Using},
		"the address is another cluster's":  {true, nil, recorded(old, "b", "cp3"), volume.Unknown},
		"the address is another machine's":  {true, nil, recorded("3", "a", "cp3"), volume.Unknown},
		"the address is a stranger's":       {true, nil, rebuilt, volume.Unknown},
	} {
		s := Spec{Spec: machine.Spec{Name: "cp3", Bundle: &pki.Bundle{ClusterID: "a"}}}
		ta := &taking{s: s, others: []machine.Observed{c.machine}}
		if c.former {
			ta.s.Former, ta.s.LastMachine = at("10.0.0.13"), old
		}
		ta.f.Volume.Identity = c.identity
		if got := ta.holder(); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// TestVolumeOfAReplacedMember: a member that replaced another one on its machine has its name. If the volume of the
// former one is attached again in place of its own, the volume is not taken.
func TestVolumeOfAReplacedMember(t *testing.T) {
	for _, inPlace := range []bool{false, true} {
		cl, specs, machines := reimagedCluster(t)
		s, m := specs["cp3"], machines["10.0.0.3"]
		s.Restore, s.LastMachine, s.LastID = nil, m.facts.MachineID, "b"
		identity := strings.Fields(m.unmounted)[2]
		mount(t, s, m)
		if !inPlace {
			m.facts.Dirs = nil
			m.facts.Output = "volume device /dev/sdb\nvolume number 8:16\nvolume kind ext4\nvolume readable\n" +
				"volume identity " + identity + "\n"
		}
		record := m.facts.Files[layout.RecordPath]
		record.Content = strings.ReplaceAll(record.Content, `"member_id": "3"`, `"member_id": "b"`)
		m.facts.Files[layout.RecordPath] = record
		err := cl.takeVolume(t.Context(), s)
		if err == nil || !strings.Contains(err.Error(), "has the data of member 3, and the state has member b") ||
			len(m.changes) > 0 {
			t.Errorf("in place: %t: %v, after %d changes", inPlace, err, len(m.changes))
		}
		if s.LastID = "3"; inPlace && cl.takeVolume(t.Context(), s) != nil {
			t.Error("the volume of the member in the state is refused")
		}
	}
}

// TestOfData: a state that names another member than the data on its volume is older than the data, unless its member
// has started and the other one is not listed.
func TestOfData(t *testing.T) {
	learner := membership.Member{ID: 0xc}
	started := membership.Member{ID: 0xc, ClientURLs: []string{"https://10.0.0.3:2379"}}
	for name, c := range map[string]struct {
		members []membership.Member
		want    bool
	}{
		"the member of the state has started":   {[]membership.Member{started}, false},
		"it has no data yet":                    {[]membership.Member{learner}, true},
		"it is not there":                       {nil, true},
		"the cluster has the one with the data": {[]membership.Member{started, {ID: 0xb}}, true},
	} {
		if got := ofData(membership.View{Members: c.members}, "b", "c"); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestUsesVolume: a machine may write to the volume if etcd runs there, or if it has mounted the volume anywhere.
func TestUsesVolume(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*machine.Observed)
		want   bool
	}{
		"idle":              {func(*machine.Observed) {}, false},
		"only attached":     {func(m *machine.Observed) { m.Volume.Device = "/dev/sdb" }, false},
		"etcd runs":         {func(m *machine.Observed) { m.Unit.Active = "active" }, true},
		"mounted":           {func(m *machine.Observed) { m.Volume.At = "8:16" }, true},
		"mounted elsewhere": {func(m *machine.Observed) { m.Volume.Elsewhere = "/mnt" }, true},
	} {
		var m machine.Observed
		c.change(&m)
		if got := usesVolume(m); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestWasOn: a member was on the machine that records it or has its volume, and on no other than that of the state.
func TestWasOn(t *testing.T) {
	s := Spec{Spec: machine.Spec{Name: "cp3", Bundle: &pki.Bundle{ClusterID: "a"}}}
	recorded := machine.Observed{Facts: host.Facts{MachineID: "m"}, Record: &machine.Record{Name: "cp3", ClusterID: "a"}}
	other := recorded
	other.Record = &machine.Record{Name: "cp9", ClusterID: "a"}
	for name, c := range map[string]struct {
		last    string
		machine machine.Observed
		want    bool
	}{
		"recorded there":                   {"m", recorded, true},
		"no state says where it was":       {"", recorded, true},
		"the state names another machine":  {"n", recorded, false},
		"another member is recorded there": {"m", other, false},
		"nothing is recorded there":        {"m", machine.Observed{Facts: recorded.Facts}, false},
	} {
		s.LastMachine = c.last
		if got := s.wasOn(c.machine); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestLeaseOfAMovedMember: the lease is needed on the machine that a member moves to, not on the one it was on.
func TestLeaseOfAMovedMember(t *testing.T) {
	pool, err := host.NewPool(host.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s := Spec{Spec: machine.Spec{Name: "cp2", Host: pool.Host(host.Target{Address: "10.0.0.14"})}}
	v := membership.View{Members: []membership.Member{
		{Name: "cp1", PeerURLs: []string{"https://10.0.0.11:2380"}},
		{Name: "cp2", PeerURLs: []string{"https://10.0.0.12:2380"}},
	}}
	if got, want := s.leaseAddresses(v), []string{"10.0.0.11", "10.0.0.12"}; !slices.Equal(got, want) {
		t.Errorf("without a volume: %v, want %v", got, want)
	}
	s.Volume = &volume.Spec{}
	if got, want := s.leaseAddresses(v), []string{"10.0.0.11", "10.0.0.14"}; !slices.Equal(got, want) {
		t.Errorf("with a volume: %v, want %v", got, want)
	}
}

// TestFormerOutageEnds: the outage on the machine that a member leaves ends if the move fails before it has left.
func TestFormerOutageEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for released, want := range map[string]int32{"": 1, "10.0.0.13": 0} {
		o := &counter{}
		ta := &taking{s: Spec{FormerOutage: o, Spec: machine.Spec{Name: "cp3"}}, outageBegun: true, released: released}
		pool, err := host.NewPool(host.Config{})
		if err != nil {
			t.Fatal(err)
		}
		ta.s.Host = pool.Host(host.Target{Address: "10.0.0.3"})
		if err := ta.run(ctx); !errors.Is(err, context.Canceled) || o.ends.Load() != want || o.dead.Load() {
			t.Errorf("released on %q: %v, ended %d times", released, err, o.ends.Load())
		}
	}
}
