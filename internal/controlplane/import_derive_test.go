package controlplane

import (
	"encoding/json"
	"maps"
	"reflect"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
)

// TestImportAudit: flags that were changed manually are imported or drift, and never attributed to
// another setting.
func TestImportAudit(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(flags map[string]string)
		policy string
		want   component.Audit
	}{
		{
			"a flag is gone", func(f map[string]string) { delete(f, "audit-policy-file") }, component.BuiltInPolicy,
			component.Audit{},
		},
		{"all are gone", func(f map[string]string) { clear(f) }, component.BuiltInPolicy, component.Audit{Off: true}},
		{
			"another number", func(f map[string]string) { f["audit-log-maxage"] = "31" }, component.BuiltInPolicy,
			component.Audit{MaxAgeDays: 31},
		},
		{
			"none that a setting can be",
			func(f map[string]string) { f["audit-log-maxage"], f["audit-log-maxsize"] = "0", "many" }, component.BuiltInPolicy,
			component.Audit{},
		},
		{"the policy is gone", func(map[string]string) {}, "", component.Audit{}},
		{
			"the policy was edited", func(map[string]string) {}, cptest.AuditPolicy,
			component.Audit{Policy: cptest.AuditPolicy},
		},
		{
			"a policy that nothing reads", func(f map[string]string) { f["audit-policy-file"] = "/etc/policy.yaml" },
			cptest.AuditPolicy,
			component.Audit{},
		},
	} {
		flags := component.Replica{}.AuditFlags()
		c.change(flags)
		if got := component.AuditFrom(flags, nil, c.policy); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestSameAudit: every configuration with the same result is equivalent to the imported one.
func TestSameAudit(t *testing.T) {
	byHand := map[string]string{}
	maps.Copy(byHand, component.Replica{}.AuditFlags())
	byHand["audit-policy-file"], byHand["audit-log-maxage"] = "/etc/policy.yaml", "7"
	for _, c := range []struct {
		name                 string
		observed, configured component.Audit
		extra                map[string]string
		want                 bool
	}{
		{"nothing", component.Audit{}, component.Audit{}, nil, true},
		{
			"defaults that are written out",
			component.Audit{},
			component.Audit{Policy: component.BuiltInPolicy, MaxAgeDays: component.DefaultAuditAge},
			nil, true,
		},
		{"another number", component.Audit{}, component.Audit{MaxBackups: 3}, nil, false},
		{"another policy", component.Audit{Policy: cptest.AuditPolicy}, component.Audit{}, nil, false},
		{"off", component.Audit{Off: true}, component.Audit{}, nil, false},
		{
			"off, beside flags",
			component.Audit{Off: true},
			component.Audit{Off: true},
			map[string]string{"audit-log-path": "-"},
			true,
		},
		{"off, and all by flags", component.Audit{}, component.Audit{Off: true}, byHand, true},
	} {
		i := Imported{Audit: c.observed, ExtraArgs: map[string]map[string]string{release.APIServer: c.extra}}
		if got := i.SameAudit(c.configured); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestSameAuthentication(t *testing.T) {
	i := Imported{
		Authentication: component.AuthenticationFrom(component.Replica{
			Authentication: component.Authentication{JWT: `[{"issuer": {"url": "https://a"}}]`},
		}.AuthenticationText()),
	}
	for _, c := range []struct {
		configured component.Authentication
		want       bool
	}{
		{component.Authentication{JWT: "# ours\n- issuer:\n    url: \"https://a\""}, true},
		{component.Authentication{JWT: "- issuer: {url: https://a}", AnonymousPaths: []string{"/livez"}}, true},
		{component.Authentication{JWT: "- issuer: {url: https://b}"}, false},
		{component.Authentication{JWT: "- issuer: {url: https://a}", AnonymousPaths: []string{"/version"}}, false},
		{component.Authentication{}, false},
	} {
		if got := i.SameAuthentication(c.configured); got != c.want {
			t.Errorf("%+v: %v, want %v", c.configured, got, c.want)
		}
	}
	for _, text := range []string{"", "{", "kind: [", "jwt: 3\n"} {
		if got := component.AuthenticationFrom(text); !reflect.DeepEqual(got, component.Authentication{}) {
			t.Errorf("%q lets in %+v", text, got)
		}
	}
}

// TestRecordIsComplete: a record contains the configuration in any layout, and none if it was
// written before the configuration was recorded.
func TestRecordIsComplete(t *testing.T) {
	s := testSpec(t)
	s.Settings = json.RawMessage(`{"audit":{"max_age_days":7}}`)
	r, err := machine.ReadRecord(string(machine.NewRecord(s.Replica, nil).File().Content))
	if err != nil {
		t.Fatal(err)
	}
	if !r.IsComplete(s.Replica) {
		t.Error("what was recorded is not what is configured")
	}
	other := s
	other.Settings = json.RawMessage(`{"audit":{}}`)
	if r.IsComplete(other.Replica) {
		t.Error("other settings are recorded")
	}
	if r.Configured = nil; r.IsComplete(s.Replica) {
		t.Error("an older record says something")
	}
}
