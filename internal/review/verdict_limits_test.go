package review

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestLimits(t *testing.T) {
	closed := &Hours{TimeZone: "UTC", From: "02:00", To: "05:00"}
	if err := closed.parse(); err != nil {
		t.Fatal(err)
	}
	limits := func(renewal, repair *Limits) Policy { return Policy{renewal, repair} }
	for name, test := range map[string]struct {
		plan   func(t *testing.T) map[string]any
		policy Policy
		reason string // "" if it is applied
	}{
		"a renewal is not allowed": {renewing, limits(nil, wide.Repair), "the policy does not allow a renewal"},
		"a repair is not allowed":  {repairing, limits(wide.Renewal, nil), "the policy does not allow a repair"},
		"as many machines":         {renewing, limits(&Limits{MaxMachines: 2}, nil), ""},
		"too many machines": {
			renewing,
			limits(&Limits{MaxMachines: 1}, nil),
			"2 machines change, and the policy allows 1",
		},
		"too many to repair": {
			repairing,
			limits(nil, &Limits{MaxMachines: 2, Restarts: &yes}),
			"3 machines change, and the policy allows 2",
		},
		"not at noon": {
			renewing,
			limits(&Limits{MaxMachines: 2, Hours: closed}, nil),
			"only every day from 02:00 to 05:00, UTC",
		},
		"no restarts": {
			repairing,
			limits(nil, &Limits{MaxMachines: 9}),
			code(replica1) + ": its repair may restart what serves",
		},
		"no restarts, a renewal":  {renewing, limits(&Limits{MaxMachines: 9}, &Limits{MaxMachines: 9}), ""},
		"no restarts, it is down": {stoppedOnes, limits(nil, &Limits{MaxMachines: 9}), ""},
	} {
		v := judged(t, test.plan(t), test.policy, noon)
		text := strings.Join(v.Reasons, "\n")
		if v.Automatic != (test.reason == "") || !strings.Contains(text, test.reason) || test.reason == "" && text != "" {
			t.Errorf("%s: %+v", name, v)
		}
		if v.Class == ClassOther {
			t.Errorf("%s: a limit changes the class: %+v", name, v)
		}
	}
}

// stoppedOnes is a repair of a member that is stopped, and of a replica that is out of rotation.
func stoppedOnes(t *testing.T) map[string]any {
	t.Helper()
	d := document(t, "nothing")
	delete(d, "prior_state") // the data source observed otherwise
	repaired(t, d, member3, "cp3: etcd.service is inactive, wanted active")
	change := changeOf(t, d, replica2)
	attributes(change["before"])["registered"] = false
	repaired(t, d, replica2, "cp2 (10.89.0.12): not registered")
	return d
}

// TestInterruptions removes what takes over for what is repaired.
func TestInterruptions(t *testing.T) {
	const stopped = ": etcd.service is inactive, wanted active"
	only := func(names ...string) func(t *testing.T) map[string]any {
		return func(t *testing.T) map[string]any {
			t.Helper()
			d := document(t, "nothing")
			delete(d, "prior_state")
			d["resource_changes"] = slices.DeleteFunc(d["resource_changes"].([]any), func(r any) bool {
				index, ok := attributes(r)["index"].(string)
				return ok && !slices.Contains(names, index)
			})
			return d
		}
	}
	member := func(name string) string { return fmt.Sprintf("kube_etcd_member.this[%q]", name) }
	flag := func(name string) edit {
		return func(t *testing.T, d map[string]any) {
			t.Helper()
			repaired(t, d, member(name), name+`: flag --x is "1", wanted "2"`)
		}
	}
	for name, test := range map[string]struct {
		plan   func(t *testing.T) map[string]any
		edits  []edit
		reason string
	}{
		"a member of three":      {only("cp1", "cp2", "cp3"), []edit{flag("cp1")}, ""},
		"a member of two":        {only("cp1", "cp2"), []edit{flag("cp1")}, "needed for quorum: 2 of 2"},
		"the only member":        {only("cp1"), []edit{flag("cp1")}, "needed for quorum: 1 of 1"},
		"the only member, down":  {only("cp1"), []edit{stop(member("cp1"), "cp1"+stopped)}, "etcd has no quorum: 0 of 1"},
		"a stopped one of three": {only("cp1", "cp2", "cp3"), []edit{stop(member("cp3"), "cp3"+stopped)}, ""},
		"a stopped one, and more": {
			only("cp1", "cp2", "cp3"),
			[]edit{stop(member("cp3"), "cp3"+stopped), flag("cp1")},
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
		"the only balancer": {
			only("cp1", "cp2", "cp3"),
			[]edit{balancers("cp1"), stop(endpointAddress, "cp1: x")},
			"its only balancer may restart",
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

func stop(address, text string) edit {
	return func(t *testing.T, d map[string]any) { t.Helper(); repaired(t, d, address, text) }
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
