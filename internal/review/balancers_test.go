package review

import (
	"slices"
	"strings"
	"testing"
)

// TestBalancers repairs endpoints of which a data source knows which balancers work.
func TestBalancers(t *testing.T) {
	const (
		only   = ": its only balancer that works may restart"
		allows = ": its repair may restart what serves"
	)
	for name, test := range map[string]struct {
		hosts   string // a + works, a - does not, a ? was not observed
		drift   string
		reasons []string
	}{
		"one that works":                     {"a+", "a: x", []string{only, allows}},
		"one that is stopped":                {"a-", "a: x", nil},
		"one, nothing is known":              {"a?", "a: x", []string{only, allows}},
		"one of two":                         {"a+ b+", "a: x", []string{allows}},
		"one of two, nothing is known":       {"a? b?", "a: x", []string{allows}},
		"one that works, the other does not": {"a+ b-", "a: x", []string{only, allows}},
		"the one that does not work":         {"a+ b-", "b: x", nil},
		"both, one works":                    {"a+ b-", "b: x\na: x", []string{only, allows}},
		"both, both work":                    {"a+ b+", "b: x\na: x", []string{allows}},
		"any, one works":                     {"a+ b-", "https://10.0.0.100:6443: does not answer", []string{only, allows}},
		"any, both work":                     {"a+ b+", "x", []string{allows}},
		"any, none works":                    {"a- b-", "x", nil},
		"another name":                       {"a+ b-", "c: x", []string{only, allows}},
		"one of three, two work":             {"a+ b+ c-", "a: x", []string{allows}},
		"one of three, the others are down":  {"a+ b- c-", "a: x", []string{only, allows}},
		"the other one was not observed":     {"a+ b?", "a: x", []string{only, allows}},
		"one that was not observed":          {"a+ b?", "b: x", []string{allows}},
		"with its address":                   {"a+ b-", "b (10.0.0.2): x", nil},
		"no drift":                           {"a+ b-", "", []string{only, allows}},
		"no machines":                        {"", "x", nil},
	} {
		e := Endpoint{Resource: Resource{Address: endpointAddress}, Hosts: map[string]string{}, Working: map[string]bool{}}
		if test.drift != "" {
			e.Drift = strings.Split(test.drift, "\n")
		}
		for _, host := range strings.Fields(test.hosts) {
			e.Hosts[host[:1]] = host[:1]
			if host[1:] != "?" {
				e.HealthKnown, e.Working[host[:1]] = true, host[1:] == "+"
			}
		}
		p := Plan{ControlPlanes: []ControlPlane{{Endpoints: []Endpoint{e}}}}
		got := p.interruptions(map[string]Class{endpointAddress: ClassRepair}, Policy{})
		same := slices.EqualFunc(got, test.reasons, func(got, want string) bool {
			return strings.HasPrefix(got, code(endpointAddress)+want)
		})
		if !same {
			t.Errorf("%s: %q, want %q", name, got, test.reasons)
		}
		restarts := slices.DeleteFunc(slices.Clone(test.reasons), func(reason string) bool { return reason == allows })
		if got := p.interruptions(map[string]Class{endpointAddress: ClassRepair}, wide); len(got) != len(restarts) {
			t.Errorf("%s, and restarts are allowed: %q", name, got)
		}
		if got := p.interruptions(nil, Policy{}); len(got) > 0 {
			t.Errorf("%s, and it stays: %q", name, got)
		}
	}
}

// TestBalancersOfPlan: the health of each balancer is that of the data source.
func TestBalancersOfPlan(t *testing.T) {
	d := document(t, "nothing")
	stop(endpointAddress, "cp1: x")(t, d)
	if v := judged(t, d, wide, noon); !v.Automatic {
		t.Errorf("all balancers work: %+v", v)
	}
	stopBalancers(t, d, "cp2", "cp3")
	expectPerson(t, judged(t, d, wide, noon), code(endpointAddress)+": its only balancer that works may restart")
	stop(endpointAddress, "cp2: x")(t, d)
	if v := judged(t, d, Policy{Repair: &Limits{MaxMachines: 1}}, noon); !v.Automatic {
		t.Errorf("one that does not work is repaired: %+v", v)
	}
}

// stopBalancers lets the data source of a plan report that HAProxy is stopped on hosts.
func stopBalancers(t *testing.T, d map[string]any, hosts ...string) {
	t.Helper()
	root := attributes(attributes(attributes(d["prior_state"])["values"])["root_module"])
	for _, r := range root["resources"].([]any) {
		if attributes(r)["type"] != "kube_control_plane" {
			continue
		}
		balancers := attributes(attributes(attributes(r)["values"])["balancers"])
		for _, host := range hosts {
			attributes(balancers[host])["haproxy"] = "inactive"
		}
		return
	}
	t.Fatal("the plan has no kube_control_plane")
}
