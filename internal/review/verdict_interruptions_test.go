package review

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestInterruptions removes what takes over for what is repaired.
func TestInterruptions(t *testing.T) {
	const stopped = ": etcd.service is inactive, wanted active"
	for name, test := range map[string]struct {
		plan   func(t *testing.T) map[string]any
		edits  []edit
		reason string
	}{
		"a member of three":      {only("cp1", "cp2", "cp3"), []edit{flagged("cp1")}, ""},
		"a member of two":        {only("cp1", "cp2"), []edit{flagged("cp1")}, "needed for quorum: 2 of 2"},
		"the only member":        {only("cp1"), []edit{flagged("cp1")}, "needed for quorum: 1 of 1"},
		"the only member, down":  {only("cp1"), []edit{stop(member("cp1"), "cp1"+stopped)}, "etcd has no quorum: 0 of 1"},
		"a stopped one of three": {only("cp1", "cp2", "cp3"), []edit{stop(member("cp3"), "cp3"+stopped)}, ""},
		"a stopped one, and more": {
			only("cp1", "cp2", "cp3"),
			[]edit{stop(member("cp3"), "cp3"+stopped), flagged("cp1")},
			"needed for quorum: 2 of 3",
		},
		"two of three are down": {
			only("cp1", "cp2", "cp3"),
			[]edit{stop(member("cp3"), "cp3"+stopped), stop(member("cp2"), "cp2"+stopped)},
			"etcd has no quorum: 1 of 3",
		},
		"the only server": {
			only("cp1"),
			[]edit{stop(replica1, "cp1 (10.89.0.11): x")},
			"API: the only server in rotation may restart",
		},
		"one server of two": {only("cp1", "cp2"), []edit{stop(replica1, "cp1 (10.89.0.11): x")}, ""},
		"the only one in rotation": {
			only("cp1", "cp2"),
			[]edit{unregistered(replica2), stop(replica1, "cp1 (10.89.0.11): x")},
			"API: the only server in rotation may restart",
		},
		"a member of the only server in rotation": {
			only("cp1", "cp2", "cp3"),
			[]edit{unregistered(replica2), unregistered(replica3), flagged("cp1")},
			"API: the only server in rotation may restart",
		},
		"another one's member": {
			only("cp1", "cp2", "cp3"),
			[]edit{unregistered(replica2), unregistered(replica3), flagged("cp2")},
			"",
		},
		"a member of a server with three": {
			only("cp1", "cp2", "cp3"),
			[]edit{unregistered(replica2), unregistered(replica3), etcdOf(replica1, "cp1", "cp2", "cp3"), flagged("cp1")},
			"",
		},
		"a stopped member of the only server": {
			only("cp1", "cp2", "cp3"),
			[]edit{unregistered(replica2), unregistered(replica3), stop(member("cp1"), "cp1"+stopped)},
			"",
		},
		"etcd elsewhere": {only("cp1", "cp2"), []edit{noMembers, stop(replica1, "cp1 (10.89.0.11): x")}, ""},
		"one server, another's repair": {
			only("cp1"),
			[]edit{noMembers, balancers("cp1", "cp2"), stop(endpointAddress, "cp1: x")},
			"",
		},
		"the only balancer": {
			only("cp1", "cp2", "cp3"),
			[]edit{balancers("cp1"), stop(endpointAddress, "cp1: x")},
			"its only balancer that works may restart",
		},
		"one balancer of two": {
			only("cp1", "cp2", "cp3"),
			[]edit{balancers("cp1", "cp2"), stop(endpointAddress, "cp1: x")},
			"",
		},
	} {
		d := test.plan(t)
		for _, e := range test.edits {
			e(t, d)
		}
		v := judged(t, d, wide, noon)
		if v.Class != ClassRepair || v.Automatic != (test.reason == "") ||
			!strings.Contains(strings.Join(v.Reasons, "\n"), test.reason) {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// only returns a plan that changes nothing, with the machines of these names. Nothing was observed for it.
func only(names ...string) func(t *testing.T) map[string]any {
	return func(t *testing.T) map[string]any {
		t.Helper()
		d := document(t, "nothing")
		delete(d, "prior_state")
		d["resource_changes"] = slices.DeleteFunc(d["resource_changes"].([]any), func(r any) bool {
			index, ok := attributes(r)["index"].(string)
			return ok && !slices.Contains(names, index)
		})
		for _, name := range names {
			change := changeOf(t, d, member(name))
			for _, side := range []string{"before", "after"} {
				maps.DeleteFunc(attributes(attributes(change[side])["peers"]), func(peer string, _ any) bool {
					return !slices.Contains(names, peer)
				})
			}
		}
		return d
	}
}

func member(name string) string { return fmt.Sprintf("kube_etcd_member.this[%q]", name) }

// flagged plans that a flag of a member is repaired.
func flagged(name string) edit {
	return func(t *testing.T, d map[string]any) {
		t.Helper()
		repaired(t, d, member(name), name+`: flag --x is "1", wanted "2"`)
	}
}

func stop(address, text string) edit {
	return func(t *testing.T, d map[string]any) { t.Helper(); repaired(t, d, address, text) }
}

// noMembers leaves out the members, as with etcd in another configuration.
func noMembers(_ *testing.T, d map[string]any) {
	d["resource_changes"] = slices.DeleteFunc(d["resource_changes"].([]any), func(r any) bool {
		return attributes(r)["type"] == "kube_etcd_member"
	})
}

// etcdOf lets a replica use several members.
func etcdOf(address string, names ...string) edit {
	return func(t *testing.T, d map[string]any) {
		t.Helper()
		change := changeOf(t, d, address)
		var urls []any
		for i := range names {
			urls = append(urls, fmt.Sprintf("https://10.89.0.%d:2379", 11+i))
		}
		attributes(change["before"])["etcd"], attributes(change["after"])["etcd"] = urls, urls
	}
}

func unregistered(address string) edit {
	return func(t *testing.T, d map[string]any) {
		t.Helper()
		change := changeOf(t, d, address)
		attributes(change["before"])["registered"], attributes(change["after"])["registered"] = false, false
	}
}

func balancers(names ...string) edit {
	return func(t *testing.T, d map[string]any) {
		t.Helper()
		hosts := map[string]any{}
		for i, name := range names {
			hosts[name] = fmt.Sprintf("10.89.0.%d", 11+i)
		}
		attributes(attributes(changeOf(t, d, endpointAddress)["before"])["haproxy"])["hosts"] = hosts
	}
}

// TestMachinesOfEndpoint counts the machines that the drift of an endpoint names. Text that
// names none counts as all.
func TestMachinesOfEndpoint(t *testing.T) {
	for text, want := range map[string]int{
		"cp1: kube-endpoint-haproxy.service is inactive": 1, "cp9: x": 3, "x": 3, "": 3, "cp1:": 3,
	} {
		d := document(t, "nothing")
		repaired(t, d, endpointAddress, text)
		if v := judged(t, d, wide, noon); len(v.Machines) != want || v.Class != ClassRepair {
			t.Errorf("%q: %+v", text, v)
		}
	}
}

// TestVerdictText checks the line of the comment and the JSON.
func TestVerdictText(t *testing.T) {
	for want, report := range map[string]Report{
		"\n\n**May be applied without a person**: only certificates are renewed, on 2 machines.\n": {
			Plans: []NamedPlan{readPlan(t, "", renewing(t))}, Policy: &wide, Now: noon,
		},
		"\n\n**May be applied without a person**: only drift is repaired, on 3 machines.\n": {
			Plans: []NamedPlan{readPlan(t, "berlin", repairing(t))}, Policy: &wide, Now: noon,
		},
		"\n\n**A person decides** (renewal): the policy does not allow a renewal.\n": {
			Plans: []NamedPlan{readPlan(t, "", renewing(t))}, Policy: &Policy{}, Now: noon,
		},
		"\n\nNothing to apply.\n": {Plans: []NamedPlan{readPlan(t, "", document(t, "nothing"))}, Policy: &wide, Now: noon},
		"; and 8 more.\n":         {Plans: []NamedPlan{readPlan(t, "", document(t, "create"))}, Policy: &wide, Now: noon},
	} {
		if got := Markdown(report, MaxComment); !strings.Contains(got, want) {
			t.Errorf("the comment lacks %q:\n%.1500s", want, got)
		}
	}
	text, err := JSON(Report{Plans: []NamedPlan{readPlan(t, "", repairing(t))}, Policy: &Policy{}, Now: noon})
	if err != nil {
		t.Fatal(err)
	}
	const want = `"verdict": {
        "class": "repair",
        "automatic": false,
        "machines": [
          "10.89.0.11",
          "10.89.0.12",
          "10.89.0.13"
        ],
        "reasons": [
          "the policy does not allow a repair",`
	if !strings.Contains(string(text), want) {
		t.Errorf("the JSON is:\n%.3000s", text)
	}
}

func TestTexts(t *testing.T) {
	for _, value := range []any{nil, "a", []any{"a", 1}, []any{1, "a"}, map[string]any{}} {
		if got, ok := texts(value); ok {
			t.Errorf("%v is %q", value, got)
		}
	}
	if got, ok := texts([]any{"a", "b"}); !ok || !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("the texts are %q: %v", got, ok)
	}
}
