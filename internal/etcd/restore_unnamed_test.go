package etcd

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// TestVotersElsewhere: a voter is elsewhere unless its machine or its data is known.
func TestVotersElsewhere(t *testing.T) {
	moved := established("cp9") // at another address, with the data of member 2
	record := *moved.Record
	record.MemberID = "2"
	moved.Record, moved.Data = &record, true
	rebuilt := moved
	rebuilt.Data = false
	voter := func(id uint64, name, url string) membership.Member {
		return membership.Member{ID: id, Name: name, PeerURLs: []string{url}}
	}
	learner := voter(3, "cp3", membership.PeerURL("10.9.0.3"))
	learner.Learner = true
	for name, c := range map[string]struct {
		machine machine.Observed
		voter   membership.Member
		want    map[string]string
	}{
		"on a known machine": {blank("cp2"), voter(2, "cp2", membership.PeerURL(blank("cp2").Address)), nil},
		"at another port":    {blank("cp2"), voter(2, "cp2", "https://"+blank("cp2").Address+":12380"), nil},
		"on a machine that is not known": {
			blank("cp2"), voter(2, "cp3", "https://10.9.0.3:2380"), map[string]string{"10.9.0.3": "cp3"},
		},
		"its volume is on another one": {moved, voter(2, "cp2", "https://10.9.0.2:2380"), nil},
		"the other one has its record": {
			rebuilt, voter(2, "cp2", "https://10.9.0.2:2380"), map[string]string{"10.9.0.2": "cp2"},
		},
		"a learner":      {blank("cp2"), learner, nil},
		"at a host name": {blank("cp2"), voter(2, "cp2", "https://etcd.example:2380"), nil},
		"IPv6":           {blank("cp2"), voter(2, "cp2", "https://[fd00::2]:2380"), map[string]string{"fd00::2": "cp2"}},
	} {
		lists := map[string]membership.View{"10.0.0.1": {Members: []membership.Member{c.voter}}}
		if got := votersElsewhere([]machine.Observed{c.machine}, lists); !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestRestoreUnnamedVoter: voters that a survivor lists, and whose machines the configuration no longer has, may serve
// without it. They are given up by name only, and the record says so.
func TestRestoreUnnamedVoter(t *testing.T) {
	t.Parallel()
	f := newLostFleet(t)
	f.put("/registry/pods/a", "survives")
	cl := f.clusters.of(f.specs["cp1"])
	known := []machine.Observed{{Name: "cp3", Address: f.address("cp3")}}
	if serves := cl.servesUnnamed(f.context(), f.specs["cp1"], known); !strings.Contains(serves, "cp3") {
		t.Errorf("a member that serves elsewhere: %q", serves)
	}
	f.kill("cp3", false)
	f.empty("cp2")
	if serves := cl.servesUnnamed(f.context(), f.specs["cp1"], known); serves != "" {
		t.Errorf("a member that has ended: %q", serves)
	}
	f.kill("cp1", false) // started again without a quorum, it answers no client
	f.request(machine.Restore{ID: "one", Member: "cp1"})
	gone := f.specs["cp3"].Host.Address()
	named := []string{"cp1", "cp2"}
	specs := map[string]Spec{}
	for _, name := range named {
		s := f.specs[name]
		s.Peers = map[string]*host.Host{"cp1": f.specs["cp1"].Host, "cp2": f.specs["cp2"].Host}
		specs[name] = s
	}
	apply := func() map[string]error {
		f.clusters = f.coordinator()
		return together(t, specs, func(s Spec) error {
			_, err := f.clusters.Update(f.context(), s)
			return err
		}, named...)
	}
	for name, err := range apply() {
		if err == nil || !strings.Contains(err.Error(), "cp3 ("+gone+"): a survivor lists it as a voter") ||
			!strings.Contains(err.Error(), host.AbandonRemedy(gone)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range named {
		s := specs[name]
		s.Abandoned = host.AbandonedAt(gone)
		specs[name] = s
	}
	plan, err := f.coordinator().PreviewRestore(f.context(), specs["cp1"])
	if err != nil || !strings.Contains(plan, "Given up") || !strings.Contains(plan, "cp3 ("+gone+")") {
		t.Errorf("%v; the plan says:\n%s", err, plan)
	}
	for name, err := range apply() {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	f.wantRoster(specs["cp1"], "cp1 cp2")
	if silent := f.record("cp1").Silent; !slices.Equal(slices.Collect(maps.Keys(silent)), []string{gone}) ||
		silent[gone] != "cp3" {
		t.Errorf("the record gives up %v", silent)
	}
}
