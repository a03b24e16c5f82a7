package haproxy

import (
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// TestHealthOf: two balancers that serve two replicas, and what can be wrong.
func TestHealthOf(t *testing.T) {
	s := specOf("10.0.0.100", map[string]string{"cp1": "10.0.0.11", "cp2": "10.0.0.12"})
	one, two := serverAt("cp1", "10.0.0.11:6443"), serverAt("cp2", "10.0.0.12:6443")
	list := renderBackends(s.Address, []server{one, two}, nil)
	whole := func(name string) balancer {
		b := withList(asRendered(s, name), s.Address, list)
		b.stats = []stat{
			{Name: "cp1", Status: "UP", Check: "L7OK", Address: one.Address, Sessions: 4},
			{Name: "cp2", Status: "UP", Check: "L7OK", Address: two.Address},
		}
		return b
	}
	for name, c := range map[string]struct {
		change     func(one, two *balancer)
		holders    []string
		unseen     []string
		trouble    string            // of cp2
		out        map[string]string // on cp2
		registered map[string]bool
	}{
		"all well": {holders: []string{"cp1"}, registered: map[string]bool{"cp1": true, "cp2": true}},
		"one is dead": {
			change:  func(_, two *balancer) { *two = balancer{unreachable: host.ErrUnreachable} },
			holders: []string{"cp1"}, unseen: []string{"cp2"}, registered: map[string]bool{"cp1": true, "cp2": true},
		},
		"none is seen": {
			change: func(one, two *balancer) {
				*one, *two = balancer{unreachable: host.ErrUnreachable}, balancer{unreachable: host.ErrUnreachable}
			},
			unseen: []string{"cp1", "cp2"}, registered: map[string]bool{"cp1": false, "cp2": false},
		},
		"both hold the address": {
			change:  func(_, two *balancer) { two.local = append(two.local, netip.MustParseAddr("10.0.0.100")) },
			holders: []string{"cp1", "cp2"}, registered: map[string]bool{"cp1": true, "cp2": true},
		},
		"a replica is down": {
			change:  func(_, two *balancer) { two.stats[1].Status, two.stats[1].Check = "DOWN", "L4CON" },
			holders: []string{"cp1"}, out: map[string]string{"cp2": "out of rotation: DOWN L4CON"},
			registered: map[string]bool{"cp1": true, "cp2": false},
		},
		"a replica is not listed": {
			change:  func(_, two *balancer) { two.servers, two.stats = two.servers[:1], two.stats[:1] },
			holders: []string{"cp1"}, out: map[string]string{"cp2": "not registered"},
			registered: map[string]bool{"cp1": true, "cp2": false},
		},
		"a stopped HAProxy": {
			change: func(_, two *balancer) {
				two.facts.Units[haproxyUnit] = host.UnitState{Load: "loaded", Active: "inactive"}
				two.answers, two.stats = false, nil
			},
			holders: []string{"cp1"}, trouble: "kube-endpoint-haproxy.service is inactive",
			out:        map[string]string{"cp1": "HAProxy does not answer", "cp2": "HAProxy does not answer"},
			registered: map[string]bool{"cp1": false, "cp2": false},
		},
		"a silent HAProxy": {
			change:  func(_, two *balancer) { two.answers, two.stats = false, nil },
			holders: []string{"cp1"}, trouble: "HAProxy does not answer",
			out:        map[string]string{"cp1": "HAProxy does not answer", "cp2": "HAProxy does not answer"},
			registered: map[string]bool{"cp1": false, "cp2": false},
		},
		"a bare machine": {
			change: func(_, two *balancer) {
				*two = balancer{facts: host.Facts{Units: map[string]host.UnitState{
					haproxyUnit: {Load: "not-found", Active: "inactive"}, keepalivedUnit: {Load: "not-found", Active: "inactive"},
				}}}
			},
			holders: []string{"cp1"}, trouble: "the endpoint is not set up there",
			out:        map[string]string{"cp1": "not registered", "cp2": "not registered"},
			registered: map[string]bool{"cp1": false, "cp2": false},
		},
	} {
		t.Run(name, func(t *testing.T) {
			one, two := whole("cp1"), whole("cp2")
			one.local = append(one.local, netip.MustParseAddr("10.0.0.100"))
			if c.change != nil {
				c.change(&one, &two)
			}
			h := healthOf(s, map[string]balancer{"cp1": one, "cp2": two})
			if got := h.Holders(); !slices.Equal(got, c.holders) {
				t.Errorf("holders %q, want %q", got, c.holders)
			}
			if got := h.Unobserved(); !slices.Equal(got, c.unseen) {
				t.Errorf("unseen %q, want %q", got, c.unseen)
			}
			second := h.Balancers["cp2"]
			if second.Err == nil && second.Problem() != c.trouble {
				t.Errorf("trouble %q, want %q", second.Problem(), c.trouble)
			}
			if len(second.Out)+len(c.out) > 0 && !reflect.DeepEqual(second.Out, c.out) {
				t.Errorf("out of rotation %q, want %q", second.Out, c.out)
			}
			for replica, want := range c.registered {
				if h.Registered(replica) != want {
					t.Errorf("replica %s registered: %v", replica, !want)
				}
			}
		})
	}
	h := healthOf(s, map[string]balancer{"cp1": whole("cp1")})
	if b := h.Balancers["cp1"]; b.Backends["cp1"] != (Backend{
		Address: "10.0.0.11:6443", Status: "UP", Check: "L7OK",
		Sessions: 4,
	}) || b.Address != "10.0.0.11" || b.HAProxy != "active" || h.Registered("cp9") {
		t.Errorf("%+v", h)
	}
}
