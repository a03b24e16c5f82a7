package haproxy

import (
	"fmt"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// TestCheckLeaving: hosts that leave take no list of replicas with them that no other host has.
func TestCheckLeaving(t *testing.T) {
	leaving := specOf(testVIP, map[string]string{"a": "10.0.0.1", "b": "10.0.0.2"})
	s := specOf(testVIP, map[string]string{"c": "10.0.0.3"})
	abandoned := s
	abandoned.Abandon = host.AbandonedAt("10.0.0.1")
	listing, without := lists(testVIP, serverAt("cp1", "10.0.0.11:6443")), lists(testVIP)
	other := listing
	other.otherEndpoint, other.backends = "the machine belongs to another one", backends{}
	lost := balancer{unreachable: fmt.Errorf("dial: %w", host.ErrUnreachable)}
	// In statistics, cp2 serves and cp1 does not.
	cp1, cp2 := serverAt("cp1", "10.0.0.11:6443"), serverAt("cp2", "10.0.0.12:6443")
	running := func(b balancer, up, down []server) balancer {
		for _, s := range up {
			b.stats = append(b.stats, stat{Name: s.Name, Address: s.Address, Status: "UP"})
		}
		for _, s := range down {
			b.stats = append(b.stats, stat{Name: s.Name, Address: s.Address, Status: "DOWN"})
		}
		return b
	}
	old := running(listing, nil, []server{cp1})
	full := running(lists(testVIP, cp1, cp2), []server{cp2}, []server{cp1})
	former := serverAt("cp2", "10.0.0.12:7443")
	formerPort := running(lists(testVIP, former), nil, []server{former})
	for name, c := range map[string]struct {
		s          Spec
		seen, gone map[string]balancer
		want       string
	}{
		"nobody leaves, nothing is registered": {s, map[string]balancer{"c": without}, nil, ""},
		"a host that stays has the list": {
			s, map[string]balancer{"c": listing}, map[string]balancer{"a": listing, "b": lost}, "",
		},
		"only hosts that leave have it": {
			s,
			map[string]balancer{"c": {}},
			map[string]balancer{"a": listing, "b": listing},
			"Host: a (10.0.0.1), b (10.0.0.2)",
		},
		"the list of the one that stays is empty": {
			s,
			map[string]balancer{"c": without},
			map[string]balancer{"a": lost, "b": listing},
			"apply twice: first keep one of these hosts in haproxy.hosts",
		},
		"the one that stays lists only one that is down": {
			s,
			map[string]balancer{"c": old},
			map[string]balancer{"a": full, "b": lost},
			"Host: a (10.0.0.1)\nCause: these hosts leave, and no host that stays lists a replica that serves",
		},
		"the one that stays lists a former port": {
			s, map[string]balancer{"c": formerPort}, map[string]balancer{"a": full}, "apply twice",
		},
		"it lists one that serves": {
			s, map[string]balancer{"c": running(lists(testVIP, cp1, cp2), nil, nil)}, map[string]balancer{"a": full}, "",
		},
		"it alone reaches the one that it lists": {
			s, map[string]balancer{"c": running(listing, []server{cp1}, nil)}, map[string]balancer{"a": full}, "",
		},
		"nobody serves":            {s, map[string]balancer{"c": old}, map[string]balancer{"a": old}, ""},
		"no replica is registered": {s, map[string]balancer{"c": {}}, map[string]balancer{"a": without, "b": lost}, ""},
		"they never had a list":    {s, map[string]balancer{"c": {}}, map[string]balancer{"a": {}}, ""},
		"another endpoint's list":  {s, map[string]balancer{"c": {}}, map[string]balancer{"a": other}, ""},
		"the list cannot be read": {
			s,
			map[string]balancer{"c": {}},
			map[string]balancer{"a": lost, "b": {}},
			`add "10.0.0.1" to abandon_unreachable_hosts`,
		},
		"it is gone for good": {abandoned, map[string]balancer{"c": {}}, map[string]balancer{"a": lost, "b": {}}, ""},
		"one of two is gone for good": {
			abandoned,
			map[string]balancer{"c": {}},
			map[string]balancer{"a": lost, "b": lost},
			`add "10.0.0.2" to abandon_unreachable_hosts`,
		},
	} {
		err := checkLeaving(c.s, leaving, c.seen, c.gone)
		check(t, name, err, c.want)
		if err != nil && !problem.Untouched(err) {
			t.Errorf("%s: the refusal does not say that nothing was changed", name)
		}
	}
}
