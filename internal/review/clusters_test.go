package review

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// addPlane adds a control plane of one machine to the module of a plan. Its addresses have another third number. Its
// machine has the name cp1, or another one.
func addPlane(t *testing.T, d map[string]any, number int, machine string) {
	t.Helper()
	text, err := json.Marshal(only("cp1")(t)["resource_changes"])
	if err != nil {
		t.Fatal(err)
	}
	renamed := strings.NewReplacer("10.89.0.", fmt.Sprintf("10.89.%d.", number), ".this", fmt.Sprintf(".other%d", number),
		".admin", fmt.Sprintf(".admin%d", number), "cp1", machine)
	var more []any
	if err := json.Unmarshal([]byte(renamed.Replace(string(text))), &more); err != nil {
		t.Fatal(err)
	}
	d["resource_changes"] = append(d["resource_changes"].([]any), more...)
}

// TestControlPlanesOfOneModule: control planes in one module do not take over for each other.
func TestControlPlanesOfOneModule(t *testing.T) {
	const server = "API: the only server in rotation may restart"
	for name, test := range map[string]struct {
		names  []string // of the machines of the others
		edit   edit
		reason string
	}{
		"a member":             {[]string{"a1", "b1"}, flagged("cp1"), "needed for quorum: 1 of 1"},
		"a member of one name": {[]string{"cp1", "cp1"}, flagged("cp1"), "needed for quorum: 1 of 1"},
		"a member's server":    {[]string{"a1", "b1"}, flagged("cp1"), server},
		"a server":             {[]string{"a1", "b1"}, stop(replica1, "cp1 (10.89.0.11): x"), server},
		"a server of one name": {[]string{"cp1", "cp1"}, stop(replica1, "cp1 (10.89.0.11): x"), server},
	} {
		d := only("cp1")(t)
		for i, machine := range test.names {
			addPlane(t, d, i+1, machine)
		}
		test.edit(t, d)
		v := judged(t, d, wide, noon)
		if v.Automatic || v.Class != ClassRepair || !strings.Contains(strings.Join(v.Reasons, "\n"), test.reason) {
			t.Errorf("%s: %+v", name, v)
		}
	}
	d := only("cp1", "cp2", "cp3")(t)
	addPlane(t, d, 1, "a1")
	flagged("cp1")(t, d)
	if v := judged(t, d, wide, noon); !v.Automatic {
		t.Errorf("a member of three, beside a cluster of one: %+v", v)
	}
}

// TestPortsOfOneAddress: an external balancer may have several control planes at one address.
func TestPortsOfOneAddress(t *testing.T) {
	r := func(name string, port int) Replica {
		return Replica{Resource: Resource{Address: name}, Endpoint: "10.0.0.100", endpointPort: port, Registered: known(true)}
	}
	p := Plan{ControlPlanes: []ControlPlane{{Replicas: []Replica{r("a", 6443), r("b", 7443), r("c", 7443)}}}}
	for address, reasons := range map[string]int{"a": 1, "b": 0} {
		if got := p.interruptions(map[string]Class{address: ClassRepair}, wide); len(got) != reasons {
			t.Errorf("%s: %q", address, got)
		}
	}
	unknown := Plan{ControlPlanes: []ControlPlane{{Replicas: []Replica{r("a", 6443), r("b", 6443)}}}}
	for i := range unknown.ControlPlanes[0].Replicas {
		unknown.ControlPlanes[0].Replicas[i].Endpoint = ""
	}
	if got := unknown.interruptions(map[string]Class{"a": ClassRepair}, wide); len(got) != 1 {
		t.Errorf("servers of endpoints that are not known: %q", got)
	}
}

// peersOf replaces the peers of a member.
func peersOf(name string, peers map[string]any) edit {
	return func(t *testing.T, d map[string]any) {
		t.Helper()
		change := changeOf(t, d, member(name))
		attributes(change["before"])["peers"], attributes(change["after"])["peers"] = peers, peers
	}
}

// TestDifferentPeers: a person decides on the repair of a member whose cluster cannot be told from others.
func TestDifferentPeers(t *testing.T) {
	const reason = "the peers of its cluster differ by member"
	for name, edits := range map[string][]edit{
		"another peer": {peersOf("cp2", map[string]any{"cp2": "10.89.0.12", "cp1": "10.89.0.11"})},
		"no peers":     {peersOf("cp1", nil), peersOf("cp2", nil), peersOf("cp3", nil)},
	} {
		d := only("cp1", "cp2", "cp3")(t)
		for _, e := range edits {
			e(t, d)
		}
		if v := judged(t, d, wide, noon); v.Class != ClassNone || len(v.Reasons) > 0 {
			t.Errorf("%s, and nothing changes: %+v", name, v)
		}
		flagged("cp1")(t, d)
		if v := judged(t, d, wide, noon); v.Automatic || !strings.Contains(strings.Join(v.Reasons, "\n"), reason) {
			t.Errorf("%s: %+v", name, v)
		}
	}
	alone := only("cp1", "cp2", "cp3")(t)
	peersOf("cp1", map[string]any{"cp1": "10.89.0.11"})(t, alone)
	for _, name := range []string{"cp2", "cp3"} {
		peersOf(name, map[string]any{"cp2": "10.89.0.12", "cp3": "10.89.0.13"})(t, alone)
	}
	flagged("cp1")(t, alone)
	v := judged(t, alone, wide, noon)
	if !strings.Contains(strings.Join(v.Reasons, "\n"), "needed for quorum: 1 of 1") {
		t.Errorf("two clusters on machines of one module: %+v", v)
	}
}

// TestMembersToCome: members that an apply would create do not take over for one that exists.
func TestMembersToCome(t *testing.T) {
	d := only("cp1", "cp2", "cp3")(t)
	for _, name := range []string{"cp2", "cp3"} {
		for _, address := range []string{member(name), fmt.Sprintf("kube_control_plane_replica.this[%q]", name)} {
			field(address, "actions", []any{"create"})(t, d)
			field(address, "before", nil)(t, d)
		}
	}
	for _, e := range []edit{flagged("cp1"), stop(replica1, "cp1 (10.89.0.11): x")} {
		one := clone(t, d)
		e(t, one)
		if due := Due(readAgain(t, one), wide, noon); len(due) > 0 {
			t.Errorf("the only one that exists is due: %q", due)
		}
	}
}

// clone returns a copy of a plan.
func clone(t *testing.T, d map[string]any) map[string]any {
	t.Helper()
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	var copied map[string]any
	if err := json.Unmarshal(text, &copied); err != nil {
		t.Fatal(err)
	}
	return copied
}

// TestNamesakes: what is observed of a machine is not taken for the state of one with its name in another cluster.
func TestNamesakes(t *testing.T) {
	at := func(address string) Resource { return Resource{Name: "cp1", Machine: address} }
	p := Plan{ControlPlanes: []ControlPlane{{
		Members: []Member{{Resource: at("10.0.0.1")}, {Resource: at("10.0.0.2")}},
		Replicas: []Replica{
			{Resource: at("10.0.0.1"), Registered: known(true)}, {Resource: at("10.0.0.2"), Registered: known(true)},
		},
	}}}
	status := func(address string, reachable, good bool) controlPlaneStatus {
		machine := MachineStatus{Address: address, Reachable: known(reachable)}
		var s controlPlaneStatus
		s.Etcd.Members = map[string]MemberStatus{"cp1": {MachineStatus: machine, Healthy: known(good)}}
		s.Replicas = map[string]replicaStatus{"cp1": {MachineStatus: machine, Registered: known(good)}}
		return s
	}
	p.addHealth(status("10.0.0.1", false, false))
	p.addHealth(status("10.0.0.2", true, true))
	plane := p.ControlPlanes[0]
	for i, good := range []bool{false, true} {
		if m := plane.Members[i]; m.Healthy == nil || *m.Healthy != good || plane.unreachable(m.Resource) == good {
			t.Errorf("the member on %s: %+v", m.Machine, m)
		}
		if r := plane.Replicas[i]; r.Registered == nil || *r.Registered != good {
			t.Errorf("the replica on %s: %+v", r.Machine, r)
		}
	}
	backends := func(address, state string) Endpoint {
		return Endpoint{Resource: Resource{Name: address}, Backends: map[string]string{"cp1": state}}
	}
	plane.Endpoints = []Endpoint{backends("10.0.0.100", "DOWN"), backends("10.0.0.101", "UP")}
	for endpoint, good := range map[string]bool{"10.0.0.100": false, "10.0.0.101": true} {
		if got := plane.inRotation(Replica{Resource: at("10.0.0.1"), Endpoint: endpoint}); got != good {
			t.Errorf("the replica behind %s is in rotation: %v", endpoint, got)
		}
	}
}

func TestClusters(t *testing.T) {
	m := func(machine string, peers ...string) Member {
		m := Member{Resource: Resource{Name: machine, Machine: machine}, peers: map[string]string{}}
		for _, peer := range peers {
			m.peers[peer] = peer
		}
		return m
	}
	joins := m("f", "f")
	joins.Action = Create
	p := ControlPlane{Members: []Member{m("a", "a", "b"), m("c", "c", "d"), m("b", "a", "b"), m("d", "c", "d"), joins}}
	var got []string
	for _, c := range p.etcdClusters() {
		var names []string
		for _, m := range c.members {
			names = append(names, m.Name)
		}
		slices.Sort(names)
		got = append(got, fmt.Sprint(strings.Join(names, " "), " ", c.unsure))
	}
	if want := []string{"a b false", "c d false"}; !slices.Equal(got, want) {
		t.Errorf("the clusters are %q, want %q", got, want)
	}
	// One that knows both joins two into one.
	p.Members = append(p.Members[:4], m("e", "e", "a", "c"))
	if all := p.etcdClusters(); len(all) != 1 || len(all[0].members) != 5 || !all[0].unsure {
		t.Errorf("the clusters are %+v", all)
	}
}
