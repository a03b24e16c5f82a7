package review

import (
	"maps"
	"slices"
	"testing"
)

// TestEndpointKinds judges plans of a control plane with each kind of endpoint.
func TestEndpointKinds(t *testing.T) {
	at := map[string]any{"cp1": "10.89.0.11", "cp2": "10.89.0.12", "cp3": "10.89.0.13"}
	for kind, values := range map[string]map[string]any{
		"external": {"targets": at, "health_check": map[string]any{"interval": "2s", "threshold": 3}},
		"dns":      {"targets": at, "zone": "example.com", "ttl": "5s"},
		"bgp":      {"targets": at, "asn": 64512},
		"kube_vip": {"targets": at, "mode": "arp"},
	} {
		t.Run(kind, func(t *testing.T) {
			p := kindPlan{kind, values}
			if v := judged(t, p.document(t), wide, noon); v.Class != ClassNone || len(v.Reasons) > 0 {
				t.Errorf("nothing changes: %+v", v)
			}
			p.repair(t)
			p.argument(t)
			p.other(t)
		})
	}
}

type kindPlan struct {
	kind   string
	values map[string]any
}

// document returns a plan that keeps an endpoint of the kind.
func (p kindPlan) document(t *testing.T) map[string]any {
	t.Helper()
	d := document(t, "nothing")
	change := changeOf(t, d, endpointAddress)
	for _, side := range []string{"before", "after"} {
		values := attributes(change[side])
		values["haproxy"], values[p.kind] = nil, maps.Clone(p.values)
	}
	return d
}

// repair: drift is repaired without a person. It may change the machines that it names, or any target.
func (p kindPlan) repair(t *testing.T) {
	t.Helper()
	for _, test := range []struct {
		drift    string
		machines []string
	}{
		{"cp2 (10.89.0.12): out of rotation", []string{"10.89.0.12"}},
		{"https://10.89.0.100:6443: does not answer", []string{"10.89.0.11", "10.89.0.12", "10.89.0.13"}},
	} {
		d := p.document(t)
		repaired(t, d, endpointAddress, test.drift)
		if v := judged(t, d, wide, noon); v.Class != ClassRepair || !v.Automatic || !slices.Equal(v.Machines, test.machines) {
			t.Errorf("%s: %+v, want a repair of %v", test.drift, v, test.machines)
		}
		few := Policy{Repair: &Limits{MaxMachines: len(test.machines) - 1, Restarts: &yes}}
		if v := judged(t, d, few, noon); v.Automatic {
			t.Errorf("%s: more machines than the policy allows: %+v", test.drift, v)
		}
	}
}

// argument: a person decides on a change of an argument of the kind.
func (p kindPlan) argument(t *testing.T) {
	t.Helper()
	d := p.document(t)
	change := changeOf(t, d, endpointAddress)
	attributes(attributes(change["after"])[p.kind])["targets"] = map[string]any{"cp1": "10.89.0.11"}
	change["actions"] = []any{"update"}
	expectPerson(t, judged(t, d, wide, noon), code(endpointAddress)+": "+code(p.kind)+" changes")
}

// other: a person decides on a change of the kind.
func (p kindPlan) other(t *testing.T) {
	t.Helper()
	d := document(t, "nothing")
	change := changeOf(t, d, endpointAddress)
	after := attributes(change["after"])
	after["haproxy"], after[p.kind] = nil, maps.Clone(p.values)
	change["actions"] = []any{"update"}
	expectPerson(t, judged(t, d, wide, noon), code(endpointAddress)+": "+code("haproxy")+" changes",
		code(endpointAddress)+": "+code(p.kind)+" changes")
}

func expectPerson(t *testing.T, v Verdict, reasons ...string) {
	t.Helper()
	for _, reason := range reasons {
		if v.Automatic || !slices.Contains(v.Reasons, reason) {
			t.Errorf("%+v, want a person to decide: %s", v, reason)
		}
	}
}
