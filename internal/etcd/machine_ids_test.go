package etcd

import (
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/volume"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// TestSharedMachineID: clones of an image have one machine ID. One machine with two addresses is no pair of clones.
func TestSharedMachineID(t *testing.T) {
	at := func(address, id, boot, name string) machine.Observed {
		return machine.Observed{Address: address, Facts: host.Facts{MachineID: id, BootID: boot, Hostname: name}}
	}
	silent := at("10.0.0.2", "m", "", "")
	silent.Err = host.ErrUnreachable
	for name, c := range map[string]struct {
		other machine.Observed
		want  string
	}{
		"another machine":             {at("10.0.0.2", "n", "b", "cp2"), ""},
		"a clone":                     {at("10.0.0.2", "m", "b", "cp2"), "10.0.0.1 and 10.0.0.2 have the same machine ID (m"},
		"a clone with the same name":  {at("10.0.0.2", "m", "b", "cp1"), "the same machine ID"},
		"a container on the same one": {at("10.0.0.2", "m", "a", "cp2"), "the same machine ID"},
		"another address of it":       {at("10.0.0.2", "m", "a", "cp1"), ""},
		"a machine that is silent":    {silent, ""},
	} {
		machines := []machine.Observed{at("10.0.0.1", "m", "a", "cp1"), c.other}
		got := sharedMachineID(machines, "x", "m")
		if !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if got := sharedMachineID(machines, "x", ""); got != "" {
			t.Errorf("%s, an ID that decides nothing: %q", name, got)
		}
	}
}

// TestVolumeAmongClones: a machine takes no volume if another one has its machine ID, because the identity on the
// volume names both then.
func TestVolumeAmongClones(t *testing.T) {
	cl, specs, machines := reimagedCluster(t)
	s, m, clone := specs["cp3"], machines["10.0.0.3"], machines["10.0.0.1"]
	s.Restore, s.LastMachine = nil, m.facts.MachineID
	m.facts.BootID, clone.facts.BootID = "a", "b"
	m.facts.Output = "volume device /dev/sdb\nvolume number 8:16\nvolume kind ext4\nvolume readable\n" +
		"volume identity " + strings.Fields(m.unmounted)[2] + "\n"
	clone.facts.MachineID = m.facts.MachineID
	err := cl.takeVolume(t.Context(), s)
	if err == nil || !strings.Contains(err.Error(), "have the same machine ID") ||
		!strings.Contains(err.Error(), "systemd-machine-id-setup") || len(m.changes)+len(clone.changes) > 0 {
		t.Errorf("%v, after %d changes", err, len(m.changes)+len(clone.changes))
	}
}

// TestMayUse: a machine with another member has not mounted the volume of this one, whatever its ID is.
func TestMayUse(t *testing.T) {
	ta := &taking{s: Spec{Spec: machine.Spec{Name: "cp1", Bundle: &pki.Bundle{ClusterID: "c"}}}}
	at := func(name string, data bool) machine.Observed {
		return machine.Observed{Address: name, Data: data, Record: &machine.Record{ClusterID: "c", Name: name}}
	}
	ta.others = []machine.Observed{at("cp1", true), at("cp2", true), at("cp3", false), {Address: "blank"}}
	var got []string
	for _, m := range ta.mayUse() {
		got = append(got, m.Address)
	}
	if want := []string{"cp1", "cp3", "blank"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestVolumeOfASilentClone: the machine that the member leaves does not answer, and the new one has its ID. It may be
// the same machine with another address, whose volume is in place, or a clone.
func TestVolumeOfASilentClone(t *testing.T) {
	const id = "33333333333333333333333333333333"
	former := (&host.Pool{}).Host(host.Target{Address: "10.0.0.3"})
	silent := machine.Observed{Address: "10.0.0.3", Err: host.ErrUnreachable}
	answers := machine.Observed{Address: "10.0.0.3", Facts: host.Facts{MachineID: id}}
	for name, c := range map[string]struct {
		change func(*taking)
		former machine.Observed
		want   string
	}{
		"silent":            {func(*taking) {}, silent, "which does not answer at 10.0.0.3"},
		"fenced":            {func(ta *taking) { ta.s.Volume.Fenced = true }, silent, ""},
		"in place":          {func(ta *taking) { ta.f.Volume.At = "8:16" }, silent, ""},
		"released":          {func(ta *taking) { ta.f.Volume.Identity.State = volume.Released }, silent, ""},
		"another machine":   {func(ta *taking) { ta.s.LastMachine = strings.Repeat("4", 32) }, silent, ""},
		"it does not move":  {func(ta *taking) { ta.s.Former = nil }, silent, ""},
		"it has no volume":  {func(ta *taking) { ta.f.Volume.Identity = nil }, silent, ""},
		"the same answers":  {func(*taking) {}, answers, ""},
		"the other answers": {func(ta *taking) { ta.f.Facts.BootID = "b" }, answers, "have the same machine ID"},
	} {
		ta := &taking{s: Spec{Former: former, LastMachine: id}}
		ta.s.Host = (&host.Pool{}).Host(host.Target{Address: "10.0.0.4"})
		ta.s.Volume = &volume.Spec{Device: "/dev/sdb"}
		ta.f = machine.Observed{Address: "10.0.0.4", Facts: host.Facts{MachineID: id}}
		ta.f.Volume = volume.Observed{
			Device: "/dev/sdb", Number: "8:16", Identity: &volume.Identity{MachineID: id, State: volume.Member},
		}
		c.change(ta)
		ta.others = []machine.Observed{c.former, ta.f}
		err := ta.checkMachineIDs()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
