package review

import (
	"encoding/json"
	"maps"
	"testing"
	"time"
)

var (
	noon = time.Date(2027, 9, 1, 12, 0, 0, 0, time.UTC)
	yes  = true
	// wide allows whatever can be allowed.
	wide = Policy{
		Renewal: &Limits{MaxMachines: 9}, Repair: &Limits{MaxMachines: 9, Restarts: &yes},
		Drill: &DrillLimits{},
	}
)

const (
	endpointAddress = "kube_control_plane_endpoint.this"
	member3         = `kube_etcd_member.this["cp3"]`
	replica1        = `kube_control_plane_replica.this["cp1"]`
	replica2        = `kube_control_plane_replica.this["cp2"]`
	replica3        = `kube_control_plane_replica.this["cp3"]`
	kubeconfig      = "kube_kubeconfig.admin"
)

// repairing returns the plan with drift on three machines, with the values that this version of
// the provider plans (planUpdate of its models). It was recorded with an earlier one.
func repairing(t *testing.T) map[string]any {
	t.Helper()
	d := document(t, "drift")
	for _, address := range []string{endpointAddress, member3, replica1, replica2} {
		settle(changeOf(t, d, address), "certificate_expires_at")
	}
	return d
}

// settle plans an update that repairs drift and leaves some values unknown.
func settle(change map[string]any, unknown ...string) {
	before := attributes(change["before"])
	after := maps.Clone(before)
	after["drift"] = []any{}
	marks := map[string]any{"config_digest": true}
	for _, name := range unknown {
		if _, ok := before[name]; ok {
			marks[name] = true
		}
	}
	for name := range marks {
		delete(after, name)
	}
	change["after"], change["after_unknown"], change["actions"] = after, marks, []any{"update"}
}

// repaired plans the repair of a resource that a plan keeps, and what the refresh observed.
func repaired(t *testing.T, d map[string]any, address string, drift ...any) {
	t.Helper()
	change := changeOf(t, d, address)
	attributes(change["before"])["drift"] = drift
	settle(change, "certificate_expires_at")
}

// renewing returns a plan that renews certificates of one member and one replica each.
func renewing(t *testing.T) map[string]any {
	t.Helper()
	d := document(t, "nothing")
	repaired(t, d, member3, "cp3: etcd/server certificate expires on 2027-11-22: it is due for renewal",
		"cp3: etcd/peer certificate expires on 2027-11-22: it is due for renewal")
	repaired(t, d, replica1,
		"cp1 (10.89.0.11): apiserver certificate expires on 2027-11-22: it is due for renewal",
		"cp1 (10.89.0.11): /etc/kubernetes/scheduler.conf: system:kube-scheduler certificate expires on 2027-11-22: "+
			"it is due for renewal")
	return d
}

// issuing plans that a kubeconfig is issued again.
func issuing(t *testing.T, d map[string]any, expires time.Time) {
	t.Helper()
	change := changeOf(t, d, kubeconfig)
	before := attributes(change["before"])
	before["expires_at"] = expires.Format(time.RFC3339)
	after, marks := maps.Clone(before), map[string]any{}
	for _, name := range consequences["kube_kubeconfig"] {
		delete(after, name)
		marks[name] = true
	}
	change["after"], change["after_unknown"], change["actions"] = after, marks, []any{"update"}
}

// edit changes a plan.
type edit func(t *testing.T, d map[string]any)

// planned plans another value of an attribute.
func planned(address, name string, value any) edit {
	return func(t *testing.T, d map[string]any) {
		t.Helper()
		attributes(changeOf(t, d, address)["after"])[name] = value
	}
}

// unknownLater plans a value that the apply determines.
func unknownLater(address, name string, mark any) edit {
	return func(t *testing.T, d map[string]any) {
		t.Helper()
		attributes(changeOf(t, d, address)["after_unknown"])[name] = mark
	}
}

func field(address, name string, value any) edit {
	return func(t *testing.T, d map[string]any) {
		t.Helper()
		changeOf(t, d, address)[name] = value
	}
}

// entry changes a field of a resource beside its change.
func entry(address, name string, value any) edit {
	return func(t *testing.T, d map[string]any) {
		t.Helper()
		for _, r := range d["resource_changes"].([]any) {
			if r := attributes(r); r["address"] == address {
				r[name] = value
			}
		}
	}
}

func planPart(name string, value any) edit {
	return func(_ *testing.T, d map[string]any) { d[name] = value }
}

// added adds a resource to a plan.
func added(resource string) edit {
	return func(t *testing.T, d map[string]any) {
		t.Helper()
		var r any
		if err := json.Unmarshal([]byte(resource), &r); err != nil {
			t.Fatal(err)
		}
		d["resource_changes"] = append(d["resource_changes"].([]any), r)
	}
}

func judged(t *testing.T, d map[string]any, policy Policy, now time.Time) Verdict {
	t.Helper()
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return Judge(Read("", text), policy, now)
}

func noDrift(t *testing.T, d map[string]any) {
	t.Helper()
	attributes(changeOf(t, d, member3)["before"])["drift"] = []any{}
}

// followed is a refresh that lets the state of a member follow its machine.
func followed(name string, before any) edit {
	return func(t *testing.T, d map[string]any) {
		t.Helper()
		after := attributes(changeOf(t, d, member3)["before"])
		prior := maps.Clone(after)
		prior[name] = before
		refreshed(d, map[string]any{"actions": []any{"update"}, "before": prior, "after": after})
	}
}

func gone(t *testing.T, d map[string]any) {
	t.Helper()
	before := changeOf(t, d, member3)["before"]
	refreshed(d, map[string]any{"actions": []any{"delete"}, "before": before, "after": nil})
}

func refreshed(d map[string]any, change map[string]any) {
	drift, _ := d["resource_drift"].([]any)
	d["resource_drift"] = append(drift, map[string]any{
		"address": member3, "mode": "managed", "type": "kube_etcd_member", "name": "this",
		"provider_name": "registry.terraform.io/kubequorum/kube", "change": change,
	})
}
