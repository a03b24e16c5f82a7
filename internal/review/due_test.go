package review

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	member1   = `kube_etcd_member.this["cp1"]`
	auditor   = "kube_kubeconfig.auditor"
	scheduler = "cp2 (10.89.0.12): kube-scheduler: kube-scheduler.service is inactive"
)

// waiting adds a change of somebody that waits for a person: a kubeconfig that does not exist yet.
func waiting(d map[string]any) {
	own(d, auditor, map[string]any{
		"actions": []any{"create"}, "before": nil, "after": map[string]any{"user": "auditor"},
		"after_unknown": map[string]any{},
	})
}

// targeted keeps the resources of a plan that a plan with -target has: these, and what they depend on.
func targeted(d map[string]any, addresses ...string) map[string]any {
	d["complete"] = false
	d["resource_changes"] = slices.DeleteFunc(d["resource_changes"].([]any), func(r any) bool {
		return !slices.Contains(addresses, attributes(r)["address"].(string))
	})
	return d
}

func readAgain(t *testing.T, d map[string]any) NamedPlan {
	t.Helper()
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return Read("", text)
}

// TestDue: what waits for a person keeps nothing else from being applied.
func TestDue(t *testing.T) {
	one := Policy{
		Renewal: &Limits{MaxMachines: 3}, Repair: &Limits{MaxMachines: 1, Restarts: &yes}, Drill: &DrillLimits{},
	}
	alone := &Hours{TimeZone: "UTC", From: "02:00", To: "05:00"}
	if err := alone.parse(); err != nil {
		t.Fatal(err)
	}
	renewals := [][]string{{member3}, {replica1}}
	for name, test := range map[string]struct {
		plan   func(t *testing.T) map[string]any
		edits  []edit
		policy Policy
		want   [][]string
	}{
		"renewals beside a change":    {renewing, nil, one, renewals},
		"a repair beside it":          {mixed, nil, one, [][]string{{member3}, {replica1, replica2}}},
		"two repairs, one is allowed": {twoToRepair, nil, one, renewals},
		"no repair is allowed":        {mixed, nil, Policy{Renewal: one.Renewal}, renewals},
		"no renewal is allowed":       {mixed, nil, Policy{Repair: one.Repair}, [][]string{{replica2}}},
		"too many renewals": {
			mixed, nil, Policy{Renewal: &Limits{MaxMachines: 1}, Repair: one.Repair}, [][]string{{replica2}},
		},
		"not at noon": {renewing, nil, Policy{Renewal: &Limits{MaxMachines: 9, Hours: alone}}, nil},
		"a drill, a kubeconfig and objects": {renewing, []edit{
			func(t *testing.T, d map[string]any) {
				t.Helper()
				drilled(t, d, noon.Add(-999*time.Hour), "720h")
				issuing(t, d, noon)
				joining(t, d, "ConfigMap kube-system/kubeadm-config: differs")
			},
		}, one, [][]string{{member3}, {replica1}, {bootstrap}, {kubeconfig}, {drill}}},
		"a kubeconfig that is not due": {
			renewing,
			[]edit{func(t *testing.T, d map[string]any) { t.Helper(); issuing(t, d, noon.Add(9000*time.Hour)) }},
			one,
			renewals,
		},
		"one with a changed argument": {renewing, []edit{planned(replica1, "port", 7443)}, one, [][]string{{member3}}},
		"one that the state follows":  {renewing, []edit{followed("version", "1")}, one, [][]string{{replica1}}},
		"a repair that loses the quorum": {renewing, []edit{
			stop(`kube_etcd_member.this["cp2"]`, "cp2: etcd.service is inactive, wanted active"),
			stop(member1, `cp1: flag --x is "1", wanted "2"`),
		}, wide, renewals},
		"without quorum": {renewing, []edit{
			stop(`kube_etcd_member.this["cp2"]`, "cp2: etcd.service is inactive, wanted active"),
			stop(member1, "cp1: etcd.service is inactive, wanted active"),
		}, wide, nil},
		"a repair that must not restart": {
			mixed, nil, Policy{Renewal: one.Renewal, Repair: &Limits{MaxMachines: 1}}, renewals,
		},
		"actions that the apply invokes": {renewing, []edit{planPart("action_invocations", []any{})}, one, renewals},
		"a part that nobody knows":       {renewing, []edit{planPart("later", []any{})}, one, nil},
		"a partial plan":                 {renewing, []edit{planPart("complete", false)}, one, nil},
		"a failed plan":                  {renewing, []edit{planPart("errored", true)}, one, nil},
		"an unknown field":               {renewing, []edit{entry(member3, "later", true)}, one, nil},
		"a name that ends its line": {
			renewing, []edit{entry(member3, "address", "x\n-destroy")}, one, [][]string{{replica1}},
		},
	} {
		d := test.plan(t)
		waiting(d)
		delete(d, "prior_state") // the data source observed otherwise
		for _, e := range test.edits {
			e(t, d)
		}
		if got := Due(readAgain(t, d), test.policy, noon); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
	for name, p := range map[string]NamedPlan{
		"a plan that is applied": readAgain(t, renewing(t)), "nothing": readAgain(t, document(t, "nothing")),
		"no plan": Read("", nil), "no JSON": Read("", []byte("{")),
	} {
		if got := Due(p, one, noon); got != nil {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestJudgePart: a plan of what is due is judged as any other, and may do no more than was due in the complete one.
func TestJudgePart(t *testing.T) {
	one := Policy{Renewal: &Limits{MaxMachines: 3}, Repair: &Limits{MaxMachines: 1, Restarts: &yes}}
	changed := planned(member3, "version", "3.7.0")
	for name, test := range map[string]struct {
		complete, part func(t *testing.T) map[string]any
		edit           edit // of the part
		policy         Policy
		class          Class
		reason         string // "" if it is applied
	}{
		"renewals":         {renewing, renewing, nil, one, ClassRenewal, ""},
		"a repair as well": {mixed, mixed, nil, one, ClassRepair, ""},
		"nothing is left":  {renewing, named("nothing"), nil, one, ClassNone, ""},
		"a change on which it depends": {
			renewing, renewing, changed, one, ClassOther, code(member3) + ": `version` changes",
		},
		"one that is to be replaced": {
			renewing, renewing, field(member3, "actions", []any{"delete", "create"}), one, ClassOther, "the action is",
		},
		"drift that is new":     {renewing, mixed, nil, one, ClassOther, code(replica2) + ": it is not due"},
		"drift of a renewal":    {renewing, renewing, stop(member3, "cp3: x"), one, ClassOther, "or for another reason"},
		"repairs of many":       {twoToRepair, mixed, nil, one, ClassOther, code(replica2) + ": it is not due"},
		"a policy for nothing":  {renewing, renewing, nil, Policy{}, ClassOther, "it is not due in the complete plan"},
		"an unknown part":       {renewing, renewing, planPart("later", 1), one, ClassOther, "does not know: `later`"},
		"planning fails":        {renewing, renewing, planPart("errored", true), one, ClassOther, "planning failed"},
		"a partial one, of one": {partial, renewing, nil, one, ClassOther, "it is not due in the complete plan"},
	} {
		complete, d := test.complete(t), test.part(t)
		waiting(complete)
		targeted(d, endpointAddress, member1, `kube_etcd_member.this["cp2"]`, member3, replica1, replica2)
		if test.edit != nil {
			test.edit(t, d)
		}
		v := JudgePart(readAgain(t, d), readAgain(t, complete), test.policy, noon)
		if v.Class != test.class || v.Automatic != (test.reason == "" && test.class != ClassNone) ||
			!strings.Contains(strings.Join(v.Reasons, "\n"), test.reason) {
			t.Errorf("%s: %+v", name, v)
		}
	}
	for name, complete := range map[string]NamedPlan{
		"no complete plan": Read("", nil), "reduced": reducedOf(t, renewing(t)),
	} {
		if v := JudgePart(readAgain(t, renewing(t)), complete, wide, noon); v.Automatic {
			t.Errorf("%s: %+v", name, v)
		}
	}
	if v := JudgePart(Read("", nil), readAgain(t, renewing(t)), wide, noon); v.Automatic || len(v.Reasons) == 0 {
		t.Errorf("no part: %+v", v)
	}
}

func partial(t *testing.T) map[string]any {
	t.Helper()
	d := renewing(t)
	d["complete"] = false
	return d
}

func reducedOf(t *testing.T, d map[string]any) NamedPlan {
	t.Helper()
	text, err := Reduce(readAgain(t, d))
	if err != nil {
		t.Fatal(err)
	}
	return Read("", text)
}

// TestPartLosesQuorum: the complete plan says how many members there are, although a part has only some of them.
func TestPartLosesQuorum(t *testing.T) {
	complete := renewing(t)
	waiting(complete)
	delete(complete, "prior_state")
	repaired(t, complete, member1, `cp1: flag --x is "1", wanted "2"`)
	stop(`kube_etcd_member.this["cp2"]`, "cp2: etcd.service is inactive, wanted active")(t, complete)
	d := targeted(mustCopy(t, complete), member1)
	if v := JudgePart(readAgain(t, d), readAgain(t, complete), wide, noon); v.Automatic {
		t.Errorf("a member restarts that is needed for quorum: %+v", v)
	}
}

func mustCopy(t *testing.T, d map[string]any) map[string]any {
	t.Helper()
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}
