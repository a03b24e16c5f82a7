package endpoint

import (
	"testing"
	"time"
)

func TestSightings(t *testing.T) {
	now := time.Now()
	one := Registration{Address: "10.0.0.100", Port: 6443, Hosts: map[string]string{"a": "10.0.0.11", "b": "10.0.0.12"}}
	same := Registration{Address: "10.0.0.100", Port: 6443, Hosts: map[string]string{"b": "10.0.0.12", "a": "10.0.0.11"}}
	other := Registration{Address: "10.0.0.101", Port: 6443, Hosts: one.Hosts}
	var s sightings
	if s.recent(one, now) != nil {
		t.Error("something was seen before anybody looked")
	}
	s.keep(one, map[string]balancer{"a": {answers: true}}, now)
	s.keep(other, map[string]balancer{"a": {}}, now)
	switch {
	case !s.recent(same, now.Add(sightingFor-1))["a"].answers:
		t.Error("what was seen of an endpoint is not known of the same one")
	case s.recent(one, now.Add(sightingFor)) != nil:
		t.Error("an old look counts")
	}
	s.forget(same)
	if s.recent(one, now) != nil || s.recent(other, now) == nil {
		t.Error("what was forgotten is not what was asked for")
	}
}
