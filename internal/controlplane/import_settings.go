package controlplane

import (
	"maps"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/unit"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

// deriveSettings derives the settings of the replica from its files and the flags of the API server.
// extra are its recorded extra arguments.
func (i *Imported) deriveSettings(flags, extra map[string]string, files map[string]host.FileState) {
	i.Audit = component.AuditFrom(flags, extra, files[component.AuditPolicyPath].Content)
	if flags["authentication-config"] == component.AuthenticationConfigPath {
		i.Authentication = component.AuthenticationFrom(files[component.AuthenticationConfigPath].Content)
	}
	i.SupplementaryGroups = unit.Groups(files[unit.Path(release.APIServer)].Content)
	i.Limits = map[string]systemd.Limits{}
	for _, name := range release.Components() {
		i.Limits[name] = systemd.LimitsIn(files[unit.Path(name)].Content)
	}
}

// SameAudit reports whether a, together with the extra arguments, results in the API server's
// current audit configuration.
func (i Imported) SameAudit(a component.Audit) bool {
	with := func(a component.Audit) component.Replica { return component.Replica{Audit: a, ExtraArgs: i.ExtraArgs} }
	have, want := with(i.Audit), with(a)
	if have.WritesPolicy() && want.WritesPolicy() && have.PolicyText() != want.PolicyText() {
		return false
	}
	flags := func(s component.Replica) map[string]string {
		all := map[string]string{}
		maps.Copy(all, s.AuditFlags())
		maps.Copy(all, s.ExtraArgs[release.APIServer])
		return all
	}
	return maps.Equal(flags(have), flags(want))
}

// SameAuthentication reports whether a is equivalent to the API server's current authentication
// configuration.
func (i Imported) SameAuthentication(a component.Authentication) bool {
	return component.Replica{Authentication: i.Authentication}.AuthenticationText() == component.Replica{Authentication: a}.AuthenticationText()
}
