package review

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// spread puts each machine of a plan into a module of its own.
func spread(t *testing.T, d map[string]any) {
	t.Helper()
	for _, r := range d["resource_changes"].([]any) {
		r := attributes(r)
		if name, ok := r["index"].(string); ok {
			r["module_address"], r["address"] = moduleOf(name), moduleOf(name)+"."+r["address"].(string)
		}
	}
}

func moduleOf(name string) string { return fmt.Sprintf("module.node[%q]", name) }

// observed adds what a kube_control_plane reports about a member.
func observed(name, address string, healthy bool) edit {
	return func(_ *testing.T, d map[string]any) {
		status := map[string]any{"address": address, "reachable": true, "healthy": healthy}
		data(d, "kube_control_plane", map[string]any{
			"etcd_cluster": map[string]any{"members": map[string]any{name: status}},
		})
	}
}

// among lets members have the peers of the first machines of a cluster, some of which are in another state.
func among(machines int, names ...string) edit {
	peers := map[string]any{}
	for i := range machines {
		peers[fmt.Sprintf("cp%d", i+1)] = fmt.Sprintf("10.89.0.%d", 11+i)
	}
	return func(t *testing.T, d map[string]any) {
		t.Helper()
		for _, name := range names {
			peersOf(name, peers)(t, d)
		}
	}
}

// TestModulePerMachine: members and replicas of one control plane take over for each other, also if each machine has a
// module of its own. Members in another state are counted, and nobody knows their health.
func TestModulePerMachine(t *testing.T) {
	const stopped = ": etcd.service is inactive, wanted active"
	three := []string{"cp1", "cp2", "cp3"}
	for name, test := range map[string]struct {
		plan   func(t *testing.T) map[string]any
		edits  []edit // before the machines have modules
		class  Class
		reason string
	}{
		"a member":           {only(three...), []edit{flagged("cp1")}, ClassRepair, ""},
		"a server":           {only(three...), []edit{stop(replica1, "cp1 (10.89.0.11): x")}, ClassRepair, ""},
		"a stopped member":   {only(three...), []edit{stop(member("cp2"), "cp2"+stopped)}, ClassRepair, ""},
		"a renewal":          {renewing, []edit{observed("cp2", "10.89.0.12", false)}, ClassRenewal, ""},
		"the last but one":   {only("cp1", "cp2"), []edit{flagged("cp1")}, ClassRepair, "needed for quorum: 2 of 2 members"},
		"the only in module": {only("cp1"), []edit{flagged("cp1")}, ClassRepair, "needed for quorum: 1 of 1 members"},
		"no quorum": {
			only(three...),
			[]edit{stop(member("cp2"), "cp2"+stopped), stop(member("cp3"), "cp3"+stopped)},
			ClassRepair,
			"etcd has no quorum: 1 of 3 members",
		},
		"servers out of rotation": {
			only(three...),
			[]edit{unregistered(replica2), unregistered(replica3), stop(replica1, "cp1 (10.89.0.11): x")},
			ClassRepair,
			"API: the only server in rotation may restart",
		},
		"different peers": {
			only(three...),
			[]edit{among(2, "cp2"), flagged("cp1")},
			ClassRepair,
			"the peers of its cluster differ by member",
		},
		"no peers": {
			only(three...),
			[]edit{peersOf("cp1", nil), peersOf("cp2", nil), peersOf("cp3", nil), flagged("cp1")},
			ClassRepair,
			"needed for quorum: 1 of 1",
		},
		"two of five elsewhere": {
			only(three...),
			[]edit{among(5, three...), flagged("cp1")},
			ClassRepair,
			"needed for quorum: 3 of 5 members are healthy, and 2 are not in this plan",
		},
		"one of four elsewhere, a stopped one": {
			only(three...),
			[]edit{among(4, three...), stop(member("cp2"), "cp2"+stopped)},
			ClassRepair,
			"",
		},
		"two elsewhere, a renewal": {
			renewing, []edit{among(5, three...), observed("cp2", "10.89.0.12", false)}, ClassRenewal, "",
		},
	} {
		d := test.plan(t)
		for _, e := range append(test.edits, spread) {
			e(t, d)
		}
		v := judged(t, d, wide, noon)
		if v.Class != test.class || v.Automatic != (test.reason == "") ||
			!strings.Contains(strings.Join(v.Reasons, "\n"), test.reason) {
			t.Errorf("%s: %+v", name, v)
		}
	}
	d := renewing(t)
	delete(d, "prior_state")
	stop(member("cp2"), "cp2"+stopped)(t, d)
	spread(t, d)
	want := [][]string{{moduleOf("cp3") + "." + member3}, {moduleOf("cp1") + "." + replica1}}
	if due := Due(readAgain(t, d), Policy{Renewal: wide.Renewal}, noon); !reflect.DeepEqual(due, want) {
		t.Errorf("while a member is down, %q is due, want %q", due, want)
	}
}

// TestMachinesTwice: a person decides if the addresses of two clusters are the same, because it is not known which
// member is of which.
func TestMachinesTwice(t *testing.T) {
	d := only("cp1", "cp2", "cp3")(t)
	more := clone(t, d)
	spread(t, more)
	d["resource_changes"] = append(d["resource_changes"].([]any), more["resource_changes"].([]any)...)
	flagged("cp1")(t, d)
	if v := judged(t, d, wide, noon); v.Automatic || !strings.Contains(strings.Join(v.Reasons, "\n"), "is not known") {
		t.Errorf("%+v", v)
	}
}

// TestMissingMembers: a member whose machine lost it is a member of its cluster until it joins again.
func TestMissingMembers(t *testing.T) {
	d := only("cp1", "cp2", "cp3")(t)
	field(member3, "actions", []any{"create"})(t, d)
	gone(t, d)
	field(member3, "before", nil)(t, d)
	stop(member("cp2"), "cp2: etcd.service is inactive, wanted active")(t, d)
	p := readAgain(t, d).Plan
	if got := p.interruptions(nil, wide); len(got) != 1 || !strings.Contains(got[0], "no quorum: 1 of 3") {
		t.Errorf("the reasons are %q", got)
	}
}
