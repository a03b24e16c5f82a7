package controlplane

import (
	"encoding/json"
	"maps"
	"reflect"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
)

// TestAuditIn: flags that were changed by hand are what they are, or drift, and
// never another setting's.
func TestAuditIn(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(flags map[string]string)
		policy string
		want   Audit
	}{
		{"a flag is gone", func(f map[string]string) { delete(f, "audit-policy-file") }, builtInPolicy, Audit{}},
		{"all are gone", func(f map[string]string) { clear(f) }, builtInPolicy, Audit{Off: true}},
		{"another number", func(f map[string]string) { f["audit-log-maxage"] = "31" }, builtInPolicy, Audit{MaxAgeDays: 31}},
		{"none that a setting can be", func(f map[string]string) { f["audit-log-maxage"], f["audit-log-maxsize"] = "0", "many" }, builtInPolicy, Audit{}},
		{"the policy is gone", func(map[string]string) {}, "", Audit{}},
		{"the policy was edited", func(map[string]string) {}, onePolicy, Audit{Policy: onePolicy}},
		{"a policy that nothing reads", func(f map[string]string) { f["audit-policy-file"] = "/etc/policy.yaml" }, onePolicy, Audit{}},
	} {
		flags := Replica{}.auditFlags()
		c.change(flags)
		if got := auditIn(flags, nil, c.policy); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestLogsBy: of what gives the same log, any is as good as what was read.
func TestLogsBy(t *testing.T) {
	byHand := map[string]string{}
	maps.Copy(byHand, Replica{}.auditFlags())
	byHand["audit-policy-file"], byHand["audit-log-maxage"] = "/etc/policy.yaml", "7"
	for _, c := range []struct {
		name        string
		found, said Audit
		extra       map[string]string
		want        bool
	}{
		{"nothing", Audit{}, Audit{}, nil, true},
		{"defaults that are written out", Audit{}, Audit{Policy: builtInPolicy, MaxAgeDays: DefaultAuditAge}, nil, true},
		{"another number", Audit{}, Audit{MaxBackups: 3}, nil, false},
		{"another policy", Audit{Policy: onePolicy}, Audit{}, nil, false},
		{"off", Audit{Off: true}, Audit{}, nil, false},
		{"off, beside flags", Audit{Off: true}, Audit{Off: true}, map[string]string{"audit-log-path": "-"}, true},
		{"off, and all by flags", Audit{}, Audit{Off: true}, byHand, true},
	} {
		i := Imported{Audit: c.found, ExtraArgs: map[string]map[string]string{release.APIServer: c.extra}}
		if got := i.LogsBy(c.said); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestLetsIn(t *testing.T) {
	i := Imported{Authentication: authenticationIn(Replica{Authentication: Authentication{JWT: `[{"issuer": {"url": "https://a"}}]`}}.authenticationText())}
	for _, c := range []struct {
		said Authentication
		want bool
	}{
		{Authentication{JWT: "# ours\n- issuer:\n    url: \"https://a\""}, true},
		{Authentication{JWT: "- issuer: {url: https://a}", AnonymousPaths: []string{"/livez"}}, true},
		{Authentication{JWT: "- issuer: {url: https://b}"}, false},
		{Authentication{JWT: "- issuer: {url: https://a}", AnonymousPaths: []string{"/version"}}, false},
		{Authentication{}, false},
	} {
		if got := i.LetsIn(c.said); got != c.want {
			t.Errorf("%+v: %v, want %v", c.said, got, c.want)
		}
	}
	for _, text := range []string{"", "{", "kind: [", "jwt: 3\n"} {
		if got := authenticationIn(text); !reflect.DeepEqual(got, Authentication{}) {
			t.Errorf("%q lets in %+v", text, got)
		}
	}
}

// TestSaysConfigured: a record says what is configured in any layout, and nothing
// where it is of before there was such a thing.
func TestSaysConfigured(t *testing.T) {
	s := testSpec(t)
	s.Settings = json.RawMessage(`{"audit":{"max_age_days":7}}`)
	r, err := readRecord(string(recordOf(s.Replica, nil).file().Content))
	if err != nil {
		t.Fatal(err)
	}
	if !r.saysConfigured(s.Replica) {
		t.Error("what was recorded is not what is configured")
	}
	other := s
	other.Settings = json.RawMessage(`{"audit":{}}`)
	if r.saysConfigured(other.Replica) {
		t.Error("other settings are recorded")
	}
	if r.Configured = nil; r.saysConfigured(s.Replica) {
		t.Error("an older record says something")
	}
}
