package review

import (
	"maps"
	"strings"
	"testing"
	"time"
)

const (
	drill     = "kube_etcd_restore_drill.this"
	bootstrap = "kube_node_bootstrap.this"
)

// own adds a resource of the provider to a plan.
func own(d map[string]any, address string, change map[string]any) {
	kind, name, _ := strings.Cut(address, ".")
	d["resource_changes"] = append(d["resource_changes"].([]any), map[string]any{
		"address": address, "mode": "managed", "type": kind, "name": name,
		"provider_name": "registry.terraform.io/kubequorum/kube", "change": change,
	})
}

// drilled plans that a restore drill runs, with the values that ModifyPlan of the resource plans.
func drilled(t *testing.T, d map[string]any, last time.Time, every string) {
	t.Helper()
	arguments := map[string]any{
		"pki": "TOP-SECRET-1", "peers": map[string]any{"cp1": "10.89.0.11"}, "every": every, "triggers": nil, "fetch": nil,
	}
	before, marks := maps.Clone(arguments), map[string]any{}
	for _, name := range consequences[drillKind] {
		before[name], marks[name] = "x", true
	}
	before["completed_at"] = last.Format(time.RFC3339)
	own(d, drill, map[string]any{
		"actions": []any{"update"}, "before": before, "after": maps.Clone(arguments), "after_unknown": marks,
	})
}

// TestDrills: a drill that is due runs without a person, also beside renewals, if the policy allows drills.
func TestDrills(t *testing.T) {
	at := func(age time.Duration) func(t *testing.T, d map[string]any) {
		return func(t *testing.T, d map[string]any) { t.Helper(); drilled(t, d, noon.Add(-age), "720h") }
	}
	with := func(edits ...edit) edit {
		return func(t *testing.T, d map[string]any) {
			t.Helper()
			for _, e := range edits {
				e(t, d)
			}
		}
	}
	closed := &Hours{TimeZone: "UTC", From: "02:00", To: "05:00"}
	if err := closed.parse(); err != nil {
		t.Fatal(err)
	}
	due := at(720 * time.Hour)
	for name, test := range map[string]struct {
		plan   func(t *testing.T) map[string]any
		edit   edit
		policy Policy
		class  Class
		reason string // "" if it is applied
	}{
		"due": {named("nothing"), due, wide, ClassDrill, ""},
		"a second too early": {
			named("nothing"), at(720*time.Hour - time.Second), wide, ClassOther, "runs again before its time",
		},
		"beside renewals": {renewing, due, wide, ClassRenewal, ""},
		"beside repairs":  {repairing, due, wide, ClassRepair, ""},
		"not allowed": {
			named("nothing"), due, Policy{Renewal: wide.Renewal}, ClassDrill, "does not allow a drill",
		},
		"beside, and not allowed": {renewing, due, Policy{Renewal: wide.Renewal}, ClassRenewal, "does not allow a drill"},
		"only drills are allowed": {renewing, due, Policy{Drill: wide.Drill}, ClassRenewal, "does not allow a renewal"},
		"at another hour": {
			named("nothing"), due,
			Policy{Drill: &DrillLimits{closed}},
			ClassDrill,
			"the policy allows a drill only every day from 02:00",
		},
		"a changed trigger": {
			named("nothing"), with(due, planned(drill, "triggers", map[string]any{"a": "b"})), wide, ClassOther,
			"`triggers` changes",
		},
		"commands that fetch": {
			named("nothing"), with(due, planned(drill, "fetch", "curl evil")), wide, ClassOther, "`fetch` changes",
		},
		"another interval": {named("nothing"), with(due, planned(drill, "every", "1h")), wide, ClassOther, "`every` changes"},
		"no interval": {
			named("nothing"), func(t *testing.T, d map[string]any) { t.Helper(); drilled(t, d, noon.Add(-9999*time.Hour), "") },
			wide, ClassOther, "when it runs again cannot be read",
		},
		"an interval of nothing": {
			named("nothing"),
			func(t *testing.T, d map[string]any) { t.Helper(); drilled(t, d, noon.Add(-9999*time.Hour), "0s") },
			wide, ClassOther, "when it runs again cannot be read",
		},
		"no last one": {
			named("nothing"), with(due, func(t *testing.T, d map[string]any) {
				t.Helper()
				attributes(changeOf(t, d, drill)["before"])["completed_at"] = "soon"
			}), wide, ClassOther, "when it runs again cannot be read",
		},
		"the first one": {
			named("nothing"), with(due, field(drill, "actions", []any{"create"})), wide, ClassOther, "the action is `create`",
		},
	} {
		d := test.plan(t)
		test.edit(t, d)
		v := judged(t, d, test.policy, noon)
		text := strings.Join(v.Reasons, "\n")
		if v.Class != test.class || v.Automatic != (test.reason == "") || !strings.Contains(text, test.reason) {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// joining plans a repair of what workers join with, with the values that ModifyPlan of the resource plans.
func joining(t *testing.T, d map[string]any, drift ...any) {
	t.Helper()
	before := map[string]any{
		"id": "a", "version": "1.36.3", "drift": drift, "ca_cert_hashes": []any{"sha256:a"},
		"discovery_file": "x", "adopt": false,
	}
	after := maps.Clone(before)
	after["drift"] = []any{}
	own(d, bootstrap, map[string]any{
		"actions": []any{"update"}, "before": before, "after": after, "after_unknown": map[string]any{"drift": []any{}},
	})
}

// TestJoinRepairs: drift of the objects with which workers join is a repair on no machine.
func TestJoinRepairs(t *testing.T) {
	const changed = "ConfigMap kube-system/kubeadm-config: kubernetesVersion differs"
	d := document(t, "nothing")
	joining(t, d, changed)
	if v := judged(t, d, wide, noon); v.Class != ClassRepair || !v.Automatic || len(v.Machines) != 0 {
		t.Errorf("%+v", v)
	} else if got := v.String(); got != "**May be applied without a person**: only drift is repaired." {
		t.Error(got)
	}
	none := Policy{Renewal: wide.Renewal}
	expectPerson(t, judged(t, d, none, noon), "the policy does not allow a repair")
	planned(bootstrap, "version", "1.37.0")(t, d)
	expectPerson(t, judged(t, d, wide, noon), code(bootstrap)+": `version` changes")

	lying := document(t, "nothing")
	joining(t, lying, "cp1: etcd/server certificate expires on 2027-11-22: it is due for renewal")
	if v := judged(t, lying, wide, noon); v.Class != ClassRepair {
		t.Errorf("objects have no certificates: %+v", v)
	}
	without := document(t, "nothing")
	joining(t, without)
	expectPerson(t, judged(t, without, wide, noon), code(bootstrap)+": changes without drift")
	unknown := document(t, "nothing")
	joining(t, unknown, changed)
	unknownLater(bootstrap, "discovery_file", true)(t, unknown)
	expectPerson(t, judged(t, unknown, wide, noon), code(bootstrap)+": `discovery_file` changes")
}

// TestFollowingOutputs: an output may follow what the apply does in some of its parts.
func TestFollowingOutputs(t *testing.T) {
	object := func(pairs ...any) map[string]any {
		all := map[string]any{}
		for i := 0; i < len(pairs); i += 2 {
			all[pairs[i].(string)] = pairs[i+1]
		}
		return all
	}
	for name, test := range map[string]struct {
		before, after, marks any
		person               bool
	}{
		"all of it":              {"a", nil, true, false},
		"known":                  {"a", "b", false, true},
		"known, an object":       {object("a", 1), object("a", 2), object(), true},
		"all parts":              {object("a", 1, "b", nil), object(), object("a", true, "b", true), false},
		"one part, another same": {object("a", 1, "b", "x"), object("b", "x"), object("a", true), false},
		"one part, another not":  {object("a", 1, "b", "x"), object("b", "y"), object("a", true), true},
		"a new part":             {object("a", 1), object(), object("a", true, "b", true), true},
		"a lost part":            {object("a", 1, "b", 1), object(), object("a", true), true},
		"another form":           {"a", object(), object("a", true), true},
		"nested":                 {object("a", object("b", 1)), object("a", object()), object("a", object("b", true)), false},
		"nested, changed": {
			object("a", object("b", 1, "c", 1)), object("a", object("c", 2)), object("a", object("b", true)), true,
		},
		"a list":               {[]any{1, 2}, []any{nil, nil}, []any{true, true}, false},
		"a list, one part":     {[]any{1, "x"}, []any{nil, "x"}, []any{true, false}, false},
		"a list, changed":      {[]any{1, "x"}, []any{nil, "y"}, []any{true, false}, true},
		"a longer list":        {[]any{1}, []any{nil, nil}, []any{true, true}, true},
		"marks of other kinds": {[]any{1}, []any{nil}, []any{"x"}, true},
	} {
		d := renewing(t)
		planPart("output_changes", map[string]any{"x": map[string]any{
			"actions": []any{"update"}, "before": test.before, "after": test.after, "after_unknown": test.marks,
		}})(t, d)
		if v := judged(t, d, wide, noon); v.Automatic == test.person {
			t.Errorf("%s: %+v", name, v)
		}
	}
}
