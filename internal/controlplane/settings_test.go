package controlplane

import (
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/unit"
)

func TestSettingsOnTheMachine(t *testing.T) {
	for _, c := range []struct {
		name     string
		alter    func(*Spec)
		written  []string
		removed  []string
		restarts []string
	}{
		{
			"nothing changes", func(*Spec) {},
			[]string{component.AuditPolicyPath, component.AuthenticationConfigPath},
			nil,
			nil,
		},
		{
			"another policy", func(s *Spec) { s.Audit.Policy = cptest.AuditPolicy },
			[]string{component.AuditPolicyPath, component.AuthenticationConfigPath},
			nil,
			[]string{release.APIServer},
		},
		{
			"no audit", func(s *Spec) { s.Audit.Off = true },
			[]string{component.AuthenticationConfigPath},
			[]string{component.AuditPolicyPath},
			[]string{release.APIServer},
		},
		{
			"an issuer", func(s *Spec) { s.Authentication.JWT = cptest.Issuer },
			[]string{component.AuditPolicyPath, component.AuthenticationConfigPath},
			nil,
			[]string{release.APIServer},
		},
		{
			"by flags", func(s *Spec) { s.ExtraArgs = cptest.Args(release.APIServer, "oidc-issuer-url", "https://x") },
			[]string{component.AuditPolicyPath},
			[]string{component.AuthenticationConfigPath},
			[]string{release.APIServer},
		},
		{
			"a limit", func(s *Spec) { s.Limits = map[string]component.Limits{release.Scheduler: {MemoryMax: "1G"}} },
			[]string{component.AuditPolicyPath, component.AuthenticationConfigPath},
			nil,
			[]string{release.Scheduler},
		},
	} {
		s := testSpec(t)
		f := converged(t, s)
		c.alter(&s)
		d := mustDecide(t, s, f, cptest.Now)
		var written []string
		for _, file := range d.files {
			if slices.Contains(component.SettingPaths(), file.Path) {
				written = append(written, file.Path)
			}
		}
		if !slices.Equal(written, c.written) || !slices.Equal(d.remove, c.removed) || !slices.Equal(d.restart, c.restarts) {
			t.Errorf("%s: writes %q, removes %q, restarts %q", c.name, written, d.remove, d.restart)
		}
		if problems := drift(s.Replica, f, cptest.Now); (len(problems) > 0) != (len(c.restarts) > 0) {
			t.Errorf("%s: drift %q", c.name, problems)
		}
	}
}

// TestSettingsAreRemoved: settings are rolled back with the definitions, even if the previous
// state was written by a provider version without settings.
func TestSettingsAreRemoved(t *testing.T) {
	for _, c := range []struct {
		name    string
		before  map[string]string
		written []string
		removed []string
	}{
		{
			"another policy",
			map[string]string{component.AuditPolicyPath: "old policy", component.AuthenticationConfigPath: "old"},
			[]string{"old policy", "old"},
			nil,
		},
		{"an earlier provider", nil, nil, []string{component.AuditPolicyPath, component.AuthenticationConfigPath}},
	} {
		s := testSpec(t)
		b := rollbackRecordOf(s)
		b.Settings = c.before
		if c.before == nil {
			b.Definitions[release.APIServer] = strings.ReplaceAll(b.Definitions[release.APIServer],
				"  --audit-policy-file="+component.AuditPolicyPath+" \\\n", "")
		}
		read := machine.ReadRollbackRecord(string(b.File().Content))
		next := s
		next.Audit.Policy = cptest.AuditPolicy
		f := converged(t, next)
		next.Previous = &component.Previous{Definitions: read.Definitions, Settings: read.Settings}
		d, err := decide(next.Replica, f, cptest.Now)
		if err != nil {
			t.Fatal(err)
		}
		var written []string
		for _, file := range d.files {
			if slices.Contains(component.SettingPaths(), file.Path) {
				written = append(written, string(file.Content))
			}
		}
		if !slices.Equal(written, c.written) || !slices.Equal(d.remove, c.removed) ||
			!slices.Contains(d.restart, release.APIServer) {
			t.Errorf("%s: writes %q, removes %q, restarts %q", c.name, written, d.remove, d.restart)
		}
	}
}

// TestGroupsOfTheUnit: only the API server has the groups; an import reads them, and a
// difference is reported as drift.
func TestGroupsOfTheUnit(t *testing.T) {
	s := testSpec(t)
	f := converged(t, s)
	s.SupplementaryGroups = []string{"kms", "hsm"}
	for _, c := range component.Of(s.Replica) {
		text := string(unit.File(c).Content)
		if has := strings.Contains(text, "\nSupplementaryGroups=hsm kms\n"); has != (c.Name == release.APIServer) {
			t.Errorf("%s: %s", c.Name, text)
		}
		if c.Name == release.APIServer && !slices.Equal(unit.Groups(text), []string{"hsm", "kms"}) {
			t.Errorf("read back: %q", unit.Groups(text))
		}
	}
	if problems := strings.Join(drift(s.Replica, f, cptest.Now), "\n"); !strings.Contains(problems,
		"names the groups [], wanted [hsm kms]") {
		t.Errorf("drift is %q", problems)
	}
	d, err := decide(s.Replica, f, cptest.Now)
	if err != nil || !slices.Equal(d.restart, []string{release.APIServer}) {
		t.Errorf("restarts %q, %v", d.restart, err)
	}
}
