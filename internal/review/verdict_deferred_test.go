package review

import (
	"strings"
	"testing"
)

// unread plans that a data source is read during the apply, and not for the plan.
func unread(kind string) edit {
	return func(t *testing.T, d map[string]any) {
		t.Helper()
		delete(d, "prior_state")
		added(`{"address":"data.`+kind+`.this","mode":"data","type":"`+kind+`","name":"this",
			"provider_name":"registry.terraform.io/kubequorum/kube","action_reason":"read_because_dependency_pending",
			"change":{"actions":["read"],"before":null,"after":{},"after_unknown":{"healthy":true},
			"before_sensitive":false,"after_sensitive":{}}}`)(t, d)
	}
}

// TestDeferredHealth: a person decides on what may restart if the plan was to have the health, and has not.
func TestDeferredHealth(t *testing.T) {
	const (
		health = "kube_control_plane"
		reason = "not known: `data.kube_control_plane.this` is read only during the apply"
	)
	down := stop(member("cp3"), "cp3: etcd.service is inactive, wanted active")
	for name, test := range map[string]struct {
		repair edit
		kind   string
		reason string
	}{
		"a member":                   {flagged("cp1"), health, reason},
		"a server":                   {stop(replica1, "cp1 (10.89.0.11): x"), health, reason},
		"a balancer":                 {stop(endpointAddress, "cp1: x"), health, reason},
		"one that is stopped":        {down, health, ""},
		"the readiness":              {flagged("cp1"), "kube_production_readiness", ""},
		"no data source in the plan": {flagged("cp1"), "", ""},
	} {
		d := document(t, "nothing")
		delete(d, "prior_state")
		if test.kind != "" {
			unread(test.kind)(t, d)
		}
		test.repair(t, d)
		v := judged(t, d, wide, noon)
		if v.Class != ClassRepair || v.Automatic != (test.reason == "") ||
			!strings.Contains(strings.Join(v.Reasons, "\n"), test.reason) {
			t.Errorf("%s: %+v", name, v)
		}
	}
	seen := document(t, "nothing")
	flagged("cp1")(t, seen)
	if v := judged(t, seen, wide, noon); !v.Automatic {
		t.Errorf("with the health: %+v", v)
	}
	renewal := renewing(t)
	unread(health)(t, renewal)
	if v := judged(t, renewal, wide, noon); v.Class != ClassRenewal || !v.Automatic {
		t.Errorf("a renewal restarts nothing: %+v", v)
	}
	waits := mixed(t)
	unread(health)(t, waits)
	waiting(waits)
	for _, group := range Due(readAgain(t, waits), wide, noon) {
		if strings.Contains(strings.Join(group, " "), replica2) {
			t.Errorf("the repair is due beside a change: %q", group)
		}
	}
}
