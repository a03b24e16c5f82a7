package haproxy

import (
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
)

func TestBalancerCache(t *testing.T) {
	now := time.Now()
	one := endpoint.Registration{
		Address: "10.0.0.100", Port: 6443, Hosts: map[string]string{"a": "10.0.0.11", "b": "10.0.0.12"},
	}
	same := endpoint.Registration{
		Address: "10.0.0.100", Port: 6443, Hosts: map[string]string{"b": "10.0.0.12", "a": "10.0.0.11"},
	}
	other := endpoint.Registration{Address: "10.0.0.101", Port: 6443, Hosts: one.Hosts}
	var s balancerCache
	if s.get(one, now) != nil {
		t.Error("something was seen before anybody looked")
	}
	s.put(one, map[string]balancer{"a": {answers: true}}, now)
	s.put(other, map[string]balancer{"a": {}}, now)
	switch {
	case !s.get(same, now.Add(cacheTTL-1))["a"].answers:
		t.Error("what was seen of an endpoint is not known of the same one")
	case s.get(one, now.Add(cacheTTL)) != nil:
		t.Error("an old look counts")
	}
	s.invalidate(same)
	if s.get(one, now) != nil || s.get(other, now) == nil {
		t.Error("what was forgotten is not what was asked for")
	}
}
