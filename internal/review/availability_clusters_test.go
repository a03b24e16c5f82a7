package review

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// destroying plans that what a machine has is destroyed.
func destroying(machine string) edit {
	return func(_ *testing.T, d map[string]any) {
		for _, r := range d["resource_changes"].([]any) {
			if r := attributes(r); r["index"] == machine {
				change := attributes(r["change"])
				change["actions"], change["after"] = []any{"delete"}, nil
			}
		}
	}
}

// reflagged plans that a member gets another flag.
func reflagged(name string) edit {
	return func(t *testing.T, d map[string]any) {
		t.Helper()
		updating(t, d, member(name), map[string][2]any{"extra_args": {nil, values{"max-txn-ops": "129"}}})
	}
}

// moving plans that a replica has its endpoint at another port.
func moving(address string) edit {
	return func(t *testing.T, d map[string]any) {
		t.Helper()
		change := changeOf(t, d, address)
		after := maps.Clone(attributes(change["after"]))
		endpoint := maps.Clone(attributes(after["endpoint"]))
		endpoint["port"] = 7443
		after["endpoint"], change["after"] = endpoint, after
		if change["before"] != nil {
			change["actions"] = []any{"update"}
		}
	}
}

// TestAvailabilityOfClusters: a comment tells each etcd cluster and each endpoint by itself, also if a module has
// several, or if one is in several modules.
func TestAvailabilityOfClusters(t *testing.T) {
	three := []string{"cp1", "cp2", "cp3"}
	another := func(numbers ...int) edit { // one more cluster, of a machine each in another network
		return func(t *testing.T, d map[string]any) {
			t.Helper()
			peers := map[string]any{}
			for _, number := range numbers {
				name := fmt.Sprintf("a%d", number)
				peers[name] = fmt.Sprintf("10.89.%d.11", number)
				addPlane(t, d, number, name)
			}
			for _, number := range numbers {
				change := changeOf(t, d, fmt.Sprintf("kube_etcd_member.other%d[%q]", number, fmt.Sprintf("a%d", number)))
				attributes(change["before"])["peers"], attributes(change["after"])["peers"] = peers, peers
			}
		}
	}
	down := func(name string) edit { return stop(member(name), name+": etcd.service is inactive, wanted active") }
	creating := func(names ...string) edit {
		return func(t *testing.T, d map[string]any) {
			t.Helper()
			for _, name := range names {
				for _, address := range []string{member(name), fmt.Sprintf("kube_control_plane_replica.this[%q]", name)} {
					field(address, "actions", []any{"create"})(t, d)
					field(address, "before", nil)(t, d)
				}
			}
		}
	}
	for name, test := range map[string]struct {
		names []string
		edits []edit
		want  []string
		not   []string
	}{
		"one of two is destroyed": {three, []edit{another(1), destroying("a1")}, []string{
			"- etcd (cp1, cp2, cp3): no member stops.\n", "- etcd (a1): **the cluster is destroyed**",
			"- API (`10.89.0.100`): no server stops; 3 of 3 are in rotation.\n",
			"- API (`10.89.1.100`): **all servers are destroyed**.\n",
		}, []string{"from 4 to 3", "etcd:", "API:"}},
		"one of two has no quorum": {three, []edit{another(1, 2, 3), down("cp2"), down("cp3")}, []string{
			"etcd (cp1, cp2, cp3): **no quorum now**: 1 of 3 members are healthy, and quorum is 2.",
			"etcd (a1, a2, a3): no member stops.\n",
		}, nil},
		"one of two restarts": {[]string{"cp1"}, []edit{another(1), reflagged("cp1")}, []string{
			"etcd (cp1): the only member restarts: **no reads and no writes meanwhile**.", "etcd (a1): no member stops.\n",
			"API (`10.89.0.100`): **the only server stops** during a restart",
			"API (`10.89.1.100`): no server stops; 1 of 1 are in rotation.\n",
		}, nil},
		"namesakes": {[]string{"cp1"}, []edit{reflagged("cp1"), func(t *testing.T, d map[string]any) {
			t.Helper()
			addPlane(t, d, 1, "cp1")
		}}, []string{
			"etcd (`kube_etcd_member.this[\"cp1\"]`): the only member restarts",
			"etcd (`kube_etcd_member.other1[\"cp1\"]`): no member stops.\n",
		}, nil},
		"one of two grows": {[]string{"cp1", "cp2", "cp3"}, []edit{another(1), creating("cp2", "cp3")}, []string{
			"etcd (cp1, cp2, cp3): from 1 to 3 members, one at a time. Quorum changes from 1 to 2.",
			"API (`10.89.0.100`): from 1 to 3 servers.", "etcd (a1): no member stops.\n",
		}, nil},
		"peers that are known later": {[]string{"cp1", "cp2"}, []edit{
			creating("cp2"), func(t *testing.T, d map[string]any) {
				t.Helper()
				after := attributes(changeOf(t, d, member("cp2"))["after"])
				delete(after, "peers")
				delete(after, "host")
				delete(attributes(changeOf(t, d, replica2)["after"]), "endpoint")
			},
		}, []string{"- etcd: from 1 to 2 members", "- API: from 1 to 2 servers."}, nil},
		"servers move, and one is added": {
			three,
			[]edit{creating("cp3"), moving(replica1), moving(replica2), moving(replica3)},
			[]string{"- API: from 2 to 3 servers."},
			[]string{"the first of this endpoint"},
		},
		"one that is added to an ID that is known later": {three, []edit{
			creating("cp3"), func(t *testing.T, d map[string]any) {
				t.Helper()
				delete(attributes(attributes(changeOf(t, d, replica3)["after"])["endpoint"]), "cluster_id")
			},
		}, []string{"- API: from 2 to 3 servers."}, []string{"the first of this endpoint"}},
		"all members move to other machines": {[]string{"cp1"}, []edit{
			another(1), destroying("cp1"), func(t *testing.T, d map[string]any) {
				t.Helper()
				change := changeOf(t, d, `kube_etcd_member.other1["a1"]`)
				change["actions"], change["before"] = []any{"create"}, nil
			},
		}, []string{
			"etcd (cp1): **the cluster is destroyed**", "etcd (a1): a new cluster of 1. Nothing depends on it yet.\n",
		}, nil},
		"a new cluster on machines that are known later": {three, []edit{
			creating(three...), func(t *testing.T, d map[string]any) {
				t.Helper()
				for _, name := range three {
					delete(attributes(changeOf(t, d, member(name))["after"]), "host")
				}
			},
		}, []string{"- etcd: a new cluster of 3. Nothing depends on it yet.\n"}, []string{"not in this plan"}},
		"a module is removed": {three, []edit{destroying("cp3"), spread}, []string{
			"- etcd: from 3 to 2 members, one at a time. Quorum stays 2.\n", "- API: from 3 to 2 servers.",
		}, []string{"the cluster is destroyed", "all servers are destroyed"}},
		"a module is added": {three, []edit{creating("cp3"), spread}, []string{
			"- etcd: from 2 to 3 members, one at a time.", "- API: from 2 to 3 servers.",
		}, []string{"Nothing depends on it", "the first of this endpoint"}},
		"a member of a module restarts": {three, []edit{reflagged("cp1"), spread}, []string{
			"- etcd: members restart one at a time. 2 of 3 keep serving; quorum is 2.\n",
			"- API: one server at a time leaves rotation, drained first. 2 of 3 keep serving.\n",
			"- API: a server is out of rotation while its only etcd member restarts or is replaced.\n",
		}, []string{"no reads and no writes", "only server stops"}},
		"a member of another state's cluster restarts": {
			[]string{"cp1"},
			[]edit{among(3, "cp1"), reflagged("cp1")},
			[]string{"- etcd: members restart one at a time. 2 of 3 members are not in this plan; quorum is 2.\n"},
			[]string{"no reads and no writes", "no quorum now"},
		},
		"it is destroyed": {
			[]string{"cp1"},
			[]edit{among(3, "cp1"), destroying("cp1")},
			[]string{"- etcd: from 3 to 2 members, one at a time. Quorum stays 2.\n"},
			[]string{"the cluster is destroyed", "no quorum now"},
		},
		"one joins it": {
			[]string{"cp1"},
			[]edit{among(3, "cp1"), creating("cp1")},
			[]string{"- etcd: 1 member is new. Its `peers` have 2 machines that are not in this plan.\n"},
			[]string{"Nothing depends on it"},
		},
	} {
		d := only(test.names...)(t)
		for _, e := range test.edits {
			e(t, d)
		}
		got := comment(t, d)
		for _, want := range test.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: the comment lacks %q:\n%.2500s", name, want, got)
			}
		}
		for _, not := range test.not {
			if strings.Contains(got, not) {
				t.Errorf("%s: the comment has %q:\n%.2500s", name, not, got)
			}
		}
		less := Markdown(Report{Title: "Plan", Plans: []NamedPlan{reducedOf(t, d)}}, MaxComment)
		if got != less {
			t.Errorf("%s: the comment on the reduced plan is:\n%s", name, less)
		}
		text, err := JSON(Report{Plans: []NamedPlan{readPlan(t, "", d)}})
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range test.want {
			line, _, _ := strings.Cut(strings.Trim(want, "- \n"), "`")
			if !strings.Contains(string(text), `"`+line) {
				t.Errorf("%s: the JSON lacks %q", name, line)
			}
		}
	}
}

// TestPlansOfEarlierVersions: a plan that an earlier version has reduced does not say which members are of one cluster.
// Each module is taken for one.
func TestPlansOfEarlierVersions(t *testing.T) {
	p := Plan{ControlPlanes: []ControlPlane{plane("restart"), plane("", "")}}
	p.ControlPlanes[1].Module = "module.b"
	got := p.ControlPlanes[0].availability(p.whole())
	if !slices.Contains(got, "etcd: the only member restarts: **no reads and no writes meanwhile**.") {
		t.Errorf("the comment has %q", got)
	}
}
