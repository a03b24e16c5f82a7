package haproxy

import (
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// TestAllHealthy: a host that cannot be reached may have the virtual IPs, if no other one has any.
func TestAllHealthy(t *testing.T) {
	one, both := threeHosts(), dualStack()
	lost := balancer{unreachable: host.ErrUnreachable}
	stopped := asRendered(one, "cp3")
	stopped.facts.Units[haproxyUnit] = host.UnitState{Load: "loaded", Active: "inactive"}
	first, second := held(asRendered(one, "cp1"), one.Address), held(asRendered(one, "cp2"), one.Address)
	idle := asRendered(one, "cp2")
	for name, c := range map[string]struct {
		s    Spec
		seen map[string]balancer
		want bool
	}{
		"one holder":               {one, map[string]balancer{"cp1": first, "cp2": idle}, true},
		"two holders":              {one, map[string]balancer{"cp1": first, "cp2": second}, false},
		"no holder":                {one, map[string]balancer{"cp2": idle}, false},
		"one is lost":              {one, map[string]balancer{"cp1": first, "cp2": lost}, true},
		"the holder is lost":       {one, map[string]balancer{"cp1": lost, "cp2": idle}, true},
		"one is lost, two holders": {one, map[string]balancer{"cp1": first, "cp2": second, "cp3": lost}, false},
		"the holder is lost, a HAProxy is stopped": {one, map[string]balancer{"cp1": lost, "cp3": stopped}, false},
		"the holder of both is lost": {
			both, map[string]balancer{"cp1": lost, "cp2": asRendered(both, "cp2")}, true,
		},
		"one is lost, another has one of two": {
			both, map[string]balancer{"cp1": lost, "cp2": held(asRendered(both, "cp2"), both.Address6)}, false,
		},
	} {
		if got := allHealthy(c.s, c.seen); got != c.want {
			t.Errorf("%s: healthy is %v", name, got)
		}
	}
}
