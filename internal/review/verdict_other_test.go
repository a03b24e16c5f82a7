package review

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestClasses judges plans as they are recorded or constructed.
func TestClasses(t *testing.T) {
	machines := []string{"10.89.0.11", "10.89.0.13"}
	all := []string{"10.89.0.11", "10.89.0.12", "10.89.0.13"}
	due := func(t *testing.T, d map[string]any) { issuing(t, d, noon.Add(100*24*time.Hour)) }
	for name, test := range map[string]struct {
		plan     func(t *testing.T) map[string]any
		edit     edit
		class    Class
		machines []string
	}{
		"nothing":    {named("nothing"), nil, ClassNone, nil},
		"a renewal":  {renewing, nil, ClassRenewal, machines},
		"a repair":   {repairing, nil, ClassRepair, all},
		"kubeconfig": {named("nothing"), due, ClassRenewal, nil},
		"both": {renewing, func(t *testing.T, d map[string]any) {
			t.Helper()
			repaired(t, d, replica2, "cp2 (10.89.0.12): kube-scheduler: kube-scheduler.service is inactive")
			due(t, d)
		}, ClassRepair, all},
		"a replica out of rotation": {repairing, func(t *testing.T, d map[string]any) {
			t.Helper()
			change := changeOf(t, d, replica2)
			attributes(change["before"])["registered"] = false
			settle(change, "certificate_expires_at", "registered")
		}, ClassRepair, all},
		"a data source of a check block": {renewing, added(`{"address":"data.kube_control_plane.this","mode":"data",
			"type":"kube_control_plane","name":"this","provider_name":"registry.terraform.io/kubequorum/kube",
			"action_reason":"read_because_check_nested","change":{"actions":["read"],"before":null,"after":{},
			"after_unknown":{"summary":true},"before_sensitive":false,"after_sensitive":{}}}`), ClassRenewal, machines},
		"a refresh of another provider's resource": {renewing, func(_ *testing.T, d map[string]any) {
			refreshed(d, map[string]any{"actions": []any{"update"}, "before": map[string]any{"a": 1}, "after": nil})
			last := d["resource_drift"].([]any)[0].(map[string]any)
			last["type"], last["provider_name"] = "null_resource", "registry.terraform.io/hashicorp/null"
		}, ClassRenewal, machines},
		"a refresh without a change": {renewing, func(_ *testing.T, d map[string]any) {
			refreshed(d, map[string]any{"actions": []any{"no-op"}, "before": map[string]any{"a": 1}, "after": map[string]any{}})
		}, ClassRenewal, machines},
		"an output that follows": {renewing, planPart("output_changes", map[string]any{"kubeconfig": map[string]any{
			"actions": []any{"update"}, "before": "a", "after_unknown": true,
		}}), ClassRenewal, machines},
	} {
		d := test.plan(t)
		if test.edit != nil {
			test.edit(t, d)
		}
		v := judged(t, d, wide, noon)
		if v.Class != test.class || !slices.Equal(v.Machines, test.machines) || len(v.Reasons) > 0 ||
			v.Automatic != (test.class != ClassNone) {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

func named(name string) func(t *testing.T) map[string]any {
	return func(t *testing.T) map[string]any {
		t.Helper()
		return document(t, name)
	}
}

// TestOthers changes plans that may be applied, one thing at a time. A person decides on each
// of them, and the reason names what it is about.
func TestOthers(t *testing.T) {
	const moved = `kube_etcd_member.other["cp3"]`
	type edits = map[string]struct {
		edit   edit
		reason string
	}
	in := func(address, text string) string { return code(address) + ": " + text }
	output := func(c map[string]any) edit { return planPart("output_changes", map[string]any{"x": c}) }
	resource := func(kind, provider, mode, action string) edit {
		return added(fmt.Sprintf(`{"address":"x.x","mode":%q,"type":%q,"name":"x","provider_name":%q,
			"change":{"actions":[%q],"before":{"a":1},"after":{"a":1},"after_unknown":{}}}`, mode, kind, provider, action))
	}
	const provider = "registry.terraform.io/kubequorum/kube"
	cases := edits{
		"an argument": {planned(replica1, "version", "1.36.4"), in(replica1, "`version` changes")},
		"the digits of a number": {
			func(t *testing.T, d map[string]any) {
				t.Helper()
				attributes(changeOf(t, d, replica1)["before"])["port"] = json.Number("9007199254740992")
				planned(replica1, "port", json.Number("9007199254740993"))(t, d)
			},
			in(replica1, "`port` changes"),
		},
		"a nested argument": {
			planned(member3, "host", map[string]any{"address": "10.89.0.99"}),
			in(member3, "`host` changes"),
		},
		"an argument removed":  {planned(replica1, "etcd", nil), in(replica1, "`etcd` changes")},
		"an unknown argument":  {unknownLater(member3, "extra_args", true), in(member3, "`extra_args` changes")},
		"unknown in part":      {unknownLater(replica1, "etcd", []any{true}), in(replica1, "`etcd` changes")},
		"the bundle":           {planned(member3, "pki", "TOP-SECRET-99"), in(member3, "`pki` changes")},
		"when to renew":        {planned(member3, "early_renewal", "8000h"), in(member3, "`early_renewal` changes")},
		"an unknown attribute": {planned(member3, "new_in_0_9", true), in(member3, "`new_in_0_9` changes")},
		"timeouts": {
			planned(member3, "timeouts", map[string]any{"update": "9h"}),
			in(member3, "`timeouts` changes"),
		},
		"a member joins again": {unknownLater(member3, "id", true), in(member3, "`id` changes")},
		"a member is promoted": {unknownLater(member3, "learner", true), in(member3, "`learner` changes")},
		"another machine":      {unknownLater(member3, "machine_id", true), in(member3, "`machine_id` changes")},
		"a planned digest": {
			func(t *testing.T, d map[string]any) { t.Helper(); unknownLater(member3, "config_digest", false)(t, d) },
			in(member3, "`config_digest` changes"),
		},
		"drift stays": {
			planned(member3, "drift", []any{"cp3: x"}),
			in(member3, "an apply would not repair its drift"),
		},
		"drift is unknown": {unknownLater(member3, "drift", true), in(member3, "an apply would not repair its drift")},
		"no drift":         {noDrift, in(member3, "changes without drift")},
		"drift of another form": {func(t *testing.T, d map[string]any) {
			t.Helper()
			attributes(changeOf(t, d, member3)["before"])["drift"] = []any{1}
		}, "the plan cannot be read"},
		"replaced": {
			field(member3, "actions", []any{"delete", "create"}),
			in(member3, "the action is `delete, create`"),
		},
		"replaced, new first": {
			field(member3, "actions", []any{"create", "delete"}),
			in(member3, "the action is `create, delete`"),
		},
		"destroyed":    {field(member3, "actions", []any{"delete"}), in(member3, "the action is `delete`")},
		"created":      {field(member3, "actions", []any{"create"}), in(member3, "the action is `create`")},
		"forgotten":    {field(member3, "actions", []any{"forget"}), in(member3, "the action is `forget`")},
		"a new action": {field(member3, "actions", []any{"defer"}), in(member3, "the action is `defer`")},
		"no action":    {field(member3, "actions", []any{}), in(member3, "the action is ``")},
		"replacing arguments": {
			field(member3, "replace_paths", []any{[]any{"name"}}),
			in(member3, "has arguments whose change replaces it"),
		},
		"imported": {
			field(member3, "importing", map[string]any{"id": "10.89.0.13"}),
			in(member3, "is imported"),
		},
		"moved":                  {entry(member3, "previous_address", moved), in(member3, "is moved from "+code(moved))},
		"moved, and kept":        {entry(`kube_etcd_member.this["cp1"]`, "previous_address", moved), "is moved from"},
		"deposed":                {entry(member3, "deposed", "abcd1234"), in(member3, "has a deposed object")},
		"values of another form": {field(member3, "before", []any{}), in(member3, "its values cannot be read")},
		"an unknown field": {
			field(member3, "later", true),
			"the plan: has `resource_changes` that kube-review does not understand",
		},
		"a field beside":  {entry(member3, "later", true), "the plan: has `resource_changes` that"},
		"an unknown part": {planPart("action_invocations", []any{}), "does not know: `action_invocations`"},
		"deferred changes": {
			planPart("deferred_changes", []any{map[string]any{"reason": "x"}}),
			"the plan: defers changes",
		},
		"partial": {planPart("complete", false), "the plan is partial"},
		"errored": {planPart("errored", true), "planning failed"},
		"of another provider": {
			resource("null_resource", "registry.terraform.io/hashicorp/null", "managed", "update"),
			"`x.x`: is of another provider",
		},
		"in our name": {
			resource("kube_etcd_member", "registry.terraform.io/evil/kube", "managed", "update"),
			"`x.x`: is of another provider",
		},
		"an unknown type":       {resource("kube_later", provider, "managed", "update"), "`x.x`: changes"},
		"the bundle's resource": {resource("kube_pki_bundle", provider, "managed", "update"), "`x.x`: changes"},
		"requests":              {resource("kube_certificate_requests", provider, "managed", "update"), "`x.x`: changes"},
		"another data source": {
			resource("external", "registry.terraform.io/hashicorp/external", "data", "read"),
			"`x.x`: is of another provider",
		},
		"a source that changes": {
			resource("kube_control_plane", provider, "data", "create"),
			"`x.x`: is of another provider",
		},
		"a resource that is read": {
			resource("kube_control_plane", provider, "managed", "read"),
			"`x.x`: the action is `read`",
		},
		"marks of another form": {field(member3, "after_unknown", []any{}), in(member3, "its values cannot be read")},
		"an unknown mode": {
			resource("kube_etcd_member", provider, "action", "update"),
			"`x.x`: is of another provider",
		},
		"a new output": {output(map[string]any{"actions": []any{"create"}, "after": 1}), "output `x`: changes"},
		"an output's value": {
			output(map[string]any{"actions": []any{"update"}, "before": 1, "after": 2, "after_unknown": false}),
			"output `x`: changes",
		},
		"a part of an output": {
			output(map[string]any{
				"actions":       []any{"update"},
				"before":        []any{"a", "b"},
				"after":         []any{"c", nil},
				"after_unknown": []any{false, true},
			}),
			"output `x`: changes",
		},
		"digits of an output": {
			output(map[string]any{
				"actions":       []any{"update"},
				"before":        json.Number("9007199254740992"),
				"after":         json.Number("9007199254740993"),
				"after_unknown": false,
			}),
			"output `x`: changes",
		},
		"a state that follows": {
			followed("version", "1.36.2"),
			in(member3, "`version` has changed outside of Terraform"),
		},
		"a state's identity": {
			followed("machine_id", "other"),
			in(member3, "`machine_id` has changed outside of Terraform"),
		},
		"a resource is gone": {gone, in(member3, "no longer exists")},
	}
	for name, test := range cases {
		for kind, plan := range map[string]func(t *testing.T) map[string]any{"renewal": renewing, "repair": repairing} {
			d := plan(t)
			test.edit(t, d)
			v := judged(t, d, wide, noon)
			if v.Automatic || v.Class != ClassOther {
				t.Errorf("%s: a %s with it is applied: %+v", name, kind, v)
			}
			if !strings.Contains(strings.Join(v.Reasons, "\n"), test.reason) {
				t.Errorf("%s: the reasons are %q, want %q", name, v.Reasons, test.reason)
			}
			const without = "without drift"
			if strings.Count(fmt.Sprint(v.Reasons), without) != strings.Count(test.reason, without) {
				t.Errorf("%s: a change with another reason is one without drift: %q", name, v.Reasons)
			}
			if strings.Contains(v.String(), "TOP-SECRET") {
				t.Errorf("%s: the verdict shows a secret: %s", name, v)
			}
		}
	}
}

// TestOneReason checks that a changed argument is one reason, also without drift.
func TestOneReason(t *testing.T) {
	d := document(t, "nothing")
	field(member3, "actions", []any{"update"})(t, d)
	planned(member3, "on_destroy", "wipe")(t, d)
	want := []string{code(member3) + ": `on_destroy` changes"}
	if v := judged(t, d, wide, noon); v.Class != ClassOther || !slices.Equal(v.Reasons, want) {
		t.Errorf("the verdict is %+v, want %q", v, want)
	}
}
