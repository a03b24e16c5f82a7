package controlplane

import (
	"maps"
	"slices"
	"strconv"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"

	"sigs.k8s.io/yaml"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// settings reads from files, and from the API server's flags, what the replica's
// own settings are. extra are its recorded extra arguments.
func (i *Imported) settings(flags, extra map[string]string, files map[string]host.FileState) {
	i.Audit = auditIn(flags, extra, files[auditPolicy].Content)
	if flags["authentication-config"] == authenticationConfig {
		i.Authentication = authenticationIn(files[authenticationConfig].Content)
	}
	i.SupplementaryGroups = groupsIn(files[unitPath(release.APIServer)].Content)
	i.Limits = map[string]systemd.Limits{}
	for _, name := range release.Components() {
		i.Limits[name] = systemd.LimitsIn(files[unitPath(name)].Content)
	}
}

// auditIn is what flags, and the policy on the machine, say of auditing. A flag in
// extra is not its to say, nor is a number that no setting can be. Auditing is off
// where its flags are not all there, and each that is one of extra's.
func auditIn(flags, extra map[string]string, policy string) Audit {
	missing, own := false, false
	for flag := range (Replica{}).auditFlags() {
		_, there := flags[flag]
		_, given := extra[flag]
		missing, own = missing || !there, own || there && !given
	}
	if missing && !own {
		return Audit{Off: true}
	}
	number := func(flag string, absent int) int {
		n, err := strconv.Atoi(flags[flag])
		if _, given := extra[flag]; given || err != nil || n < 1 || n > MaxAuditNumber || n == absent {
			return 0
		}
		return n
	}
	a := Audit{
		MaxAgeDays: number("audit-log-maxage", DefaultAuditAge), MaxBackups: number("audit-log-maxbackup", DefaultAuditBackups),
		MaxSizeMB: number("audit-log-maxsize", DefaultAuditSize),
	}
	if flags["audit-policy-file"] == auditPolicy && policy != builtInPolicy {
		a.Policy = policy
	}
	return a
}

// authenticationIn reads back what authenticationText has written, or the zero
// value.
func authenticationIn(text string) Authentication {
	var config authenticationConfiguration
	if yaml.Unmarshal([]byte(text), &config) != nil {
		return Authentication{}
	}
	var a Authentication
	for _, open := range config.Anonymous.Conditions {
		if !slices.Contains(healthPaths(), open.Path) {
			a.AnonymousPaths = append(a.AnonymousPaths, open.Path)
		}
	}
	if len(config.JWT) > 0 {
		jwt, err := yaml.Marshal(config.JWT)
		if err != nil {
			panic("controlplane: encode authenticators: " + err.Error()) // what was read from YAML encodes
		}
		a.JWT = string(jwt)
	}
	return a
}

// LogsBy reports whether a makes the API server log as it does, beside the extra
// arguments that it has.
func (i Imported) LogsBy(a Audit) bool {
	with := func(a Audit) Replica { return Replica{Audit: a, ExtraArgs: i.ExtraArgs} }
	have, want := with(i.Audit), with(a)
	if have.writesPolicy() && want.writesPolicy() && have.policyText() != want.policyText() {
		return false
	}
	flags := func(s Replica) map[string]string {
		all := map[string]string{}
		maps.Copy(all, s.auditFlags())
		maps.Copy(all, s.ExtraArgs[release.APIServer])
		return all
	}
	return maps.Equal(flags(have), flags(want))
}

// LetsIn reports whether a lets in whom the API server does.
func (i Imported) LetsIn(a Authentication) bool {
	return Replica{Authentication: i.Authentication}.authenticationText() == Replica{Authentication: a}.authenticationText()
}
