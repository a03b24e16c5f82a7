package controlplane

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"

	"sigs.k8s.io/yaml"
)

const onePolicy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"

const oneIssuer = `
- issuer: {url: https://login.example/realm, audiences: [kubernetes]}
  claimMappings:
    username: {claim: sub, prefix: "login:"}
    groups: {claim: groups, prefix: ""}
`

// TestBuiltInPolicy asks the built-in policy, by the rules of the API server
// (k8s.io/apiserver/pkg/audit/policy), at which level it logs a request.
func TestBuiltInPolicy(t *testing.T) {
	const admin, masters = "kubernetes-admin", "kubeadm:cluster-admins"
	if err := validatePolicy(builtInPolicy); err != nil {
		t.Fatal(err)
	}
	var p policy
	if err := yaml.Unmarshal([]byte(builtInPolicy), &p); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		user, group, verb, api, resource, path string
		want                                   string
	}{
		{admin, masters, "get", "", "secrets", "", "Metadata"},
		{"system:node:a", "system:nodes", "watch", "", "secrets", "", "Metadata"},
		{"system:kube-controller-manager", "", "list", "", "secrets", "", "Metadata"},
		{admin, masters, "update", "", "configmaps", "", "Metadata"},
		{"system:node:a", "system:nodes", "watch", "", "configmaps", "", "None"},
		{"system:node:a", "system:nodes", "create", "", "serviceaccounts/token", "", "Metadata"},
		{"system:serviceaccount:x:y", "system:serviceaccounts", "create", "authentication.k8s.io", "tokenreviews", "", "Metadata"},
		{admin, masters, "create", "rbac.authorization.k8s.io", "clusterrolebindings", "", "RequestResponse"},
		{"system:serviceaccount:kube-system:x", "system:serviceaccounts:kube-system", "patch", "rbac.authorization.k8s.io", "roles", "", "RequestResponse"},
		{admin, masters, "list", "rbac.authorization.k8s.io", "roles", "", "Metadata"},
		{admin, masters, "get", "", "pods/exec", "", "Metadata"}, // by WebSocket
		{"system:serviceaccount:kube-system:x", "system:serviceaccounts:kube-system", "get", "", "pods/exec", "", "Metadata"},
		{admin, masters, "create", "", "pods/portforward", "", "Metadata"},
		{admin, masters, "get", "", "services/proxy", "", "Metadata"},
		{admin, masters, "patch", "apps", "deployments", "", "Metadata"},
		{admin, masters, "delete", "", "pods", "", "Metadata"},
		{admin, masters, "create", "", "events", "", "None"},
		{"system:node:a", "system:nodes", "update", "coordination.k8s.io", "leases", "", "None"},
		{"system:node:a", "system:nodes", "patch", "", "nodes/status", "", "None"},
		{"system:node:a", "system:nodes", "create", "", "pods", "", "Metadata"},
		{"system:kube-scheduler", "", "watch", "", "pods", "", "None"},
		{"system:kube-scheduler", "", "create", "", "pods/binding", "", "Metadata"},
		{"system:anonymous", "system:unauthenticated", "get", "", "", "/readyz", "None"},
		{"system:anonymous", "system:unauthenticated", "get", "", "", "/livez/ping", "None"},
		{admin, masters, "get", "", "", "/apis/apps/v1", "None"},
		{admin, masters, "get", "", "", "/metrics", "Metadata"},
		{admin, masters, "get", "", "", "/logs/x", "Metadata"},
	} {
		i := slices.IndexFunc(p.Rules, func(r policyRule) bool {
			return matches(r, c.user, c.group, c.verb) && concerns(r, c.api, c.resource, c.path)
		})
		if i < 0 || p.Rules[i].Level != c.want {
			t.Errorf("%s %s %s%s%s is logged by rule %d, want %s", c.user, c.verb, c.api, c.resource, c.path, i, c.want)
		}
	}
}

func TestGuideShowsTheBuiltInPolicy(t *testing.T) {
	guide, err := os.ReadFile(filepath.Join("..", "..", "templates", "guides", "hardening.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(guide), "```yaml\n"+builtInPolicy+"```\n") {
		t.Error("the guide shows another policy than the built-in one")
	}
}

func matches(r policyRule, user, group, verb string) bool {
	return (len(r.Users) == 0 || slices.Contains(r.Users, user)) &&
		(len(r.UserGroups) == 0 || slices.Contains(r.UserGroups, group)) &&
		(len(r.Verbs) == 0 || slices.Contains(r.Verbs, verb))
}

func concerns(r policyRule, api, resource, path string) bool {
	if len(r.Resources)+len(r.NonResourceURLs) == 0 {
		return true
	}
	for _, pattern := range r.NonResourceURLs {
		prefix, wild := strings.CutSuffix(pattern, "*")
		if path != "" && (path == pattern || wild && strings.HasPrefix(path, prefix)) {
			return true
		}
	}
	return path == "" && slices.ContainsFunc(r.Resources, func(g policyResource) bool {
		return g.Group == api && (len(g.Resources) == 0 || slices.Contains(g.Resources, resource))
	})
}

func TestValidateAudit(t *testing.T) {
	rule := func(text string) Audit {
		return Audit{Policy: "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- " + text + "\n"}
	}
	for _, c := range []struct {
		name  string
		audit Audit
		flag  string
		want  string // part of the error; "" for none
	}{
		{"nothing", Audit{}, "", ""},
		{"a policy", Audit{Policy: onePolicy, MaxAgeDays: 7}, "", ""},
		{"by hand", Audit{}, "audit-policy-file", ""},
		{"off, by hand", Audit{Off: true}, "audit-policy-file", ""},
		{"other flags", Audit{Policy: onePolicy}, "audit-webhook-config-file", ""},
		{"policy twice", Audit{Policy: onePolicy}, "audit-policy-file", `audit.policy and the flag "audit-policy-file"`},
		{"age twice", Audit{MaxAgeDays: 3}, "audit-log-maxage", "say the same thing twice; drop the flag"},
		{"off with a policy", Audit{Off: true, Policy: onePolicy}, "", "no effect with audit.enabled = false"},
		{"no YAML", Audit{Policy: "{"}, "", "cannot be read"},
		{"no rules", Audit{Policy: "apiVersion: audit.k8s.io/v1\nkind: Policy\n"}, "", "has no rules"},
		{"an old version", Audit{Policy: "apiVersion: audit.k8s.io/v1beta1\nkind: Policy\nrules: [{level: None}]\n"}, "", "must be Policy of audit.k8s.io/v1"},
		{"misspelt", rule("{level: None, verb: [get]}"), "", `unknown field "verb"`},
		{"level", rule("{level: Body}"), "", `rules[0].level is "Body"`},
		{"no level", rule("{verbs: [get]}"), "", `rules[0].level is ""`},
		{"stage", rule("{level: None, omitStages: [End]}"), "", `rules[0].omitStages has "End"`},
		{"group with version", rule("{level: None, resources: [{group: apps/v1}]}"), "", "without a version"},
		{"names alone", rule("{level: None, resources: [{group: apps, resourceNames: [x]}]}"), "", "without resources"},
		{"both kinds", rule("{level: None, nonResourceURLs: [/x], namespaces: [a]}"), "", "make it two rules"},
		{"path", rule("{level: None, nonResourceURLs: ['/x*/y']}"), "", "may have * at its end"},
	} {
		err := ValidateAudit(c.audit, map[string]string{c.flag: "x"})
		if got := text(err); (c.want == "") != (err == nil) || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestAuthenticationText(t *testing.T) {
	s := testSpec(t)
	const closed = `anonymous:
  conditions:
  - path: /healthz
  - path: /livez
  - path: /readyz
  enabled: true
apiVersion: apiserver.config.k8s.io/v1beta1
`
	if have := s.authenticationText(); have != closed+"jwt: []\nkind: AuthenticationConfiguration\n" {
		t.Errorf("by default:\n%s", have)
	}
	s.Authentication = Authentication{JWT: "# a comment\n" + oneIssuer, AnonymousPaths: []string{"/version", "/livez"}}
	have := s.authenticationText()
	if !strings.Contains(have, "  - path: /readyz\n  - path: /version\n  enabled: true\n") || strings.Count(have, "/livez") != 1 ||
		!strings.Contains(have, "jwt:\n- claimMappings:\n    groups:\n      claim: groups\n      prefix: \"\"\n") || strings.Contains(have, "comment") {
		t.Errorf("with an issuer:\n%s", have)
	}
	for _, version := range []string{"1.32.13", "1.36.3"} {
		s.Version = version
		if s.authenticationText() != have {
			t.Errorf("%s: an upgrade changes the file", version)
		}
	}
}

func TestValidateAuthentication(t *testing.T) {
	issuer := func(old, instead string) Authentication {
		changed := strings.Replace(oneIssuer, old, instead, 1)
		if changed == oneIssuer {
			t.Fatalf("%q is not in the sample", old)
		}
		return Authentication{JWT: changed}
	}
	for _, c := range []struct {
		name, version string
		auth          Authentication
		extra         map[string]string
		want          string // part of the error; "" for none
	}{
		{"nothing", "1.33.13", Authentication{}, map[string]string{"oidc-issuer-url": "https://x"}, ""},
		{"an issuer", "1.33.13", Authentication{JWT: oneIssuer, AnonymousPaths: []string{"/version"}}, nil, ""},
		{"flags too", "1.34.4", Authentication{JWT: oneIssuer}, map[string]string{"oidc-issuer-url": "https://x"}, `by a flag "oidc-…" of extra_args`},
		{"a file too", "1.34.4", Authentication{AnonymousPaths: []string{"/version"}}, map[string]string{"authentication-config": "/x"}, `by the flag "authentication-config"`},
		{"no gate", "1.33.13", Authentication{JWT: oneIssuer}, map[string]string{release.FeatureGates: "StructuredAuthenticationConfiguration=false"}, "StructuredAuthenticationConfiguration=false"},
		{"another gate", "1.33.13", Authentication{JWT: oneIssuer}, map[string]string{release.FeatureGates: "WatchList=false"}, ""},
		{"relative path", "1.34.4", Authentication{AnonymousPaths: []string{"version"}}, nil, "must begin with /"},
		{"wildcard", "1.34.4", Authentication{AnonymousPaths: []string{"/api/*"}}, nil, "without wildcards"},
		{"whole document", "1.34.4", Authentication{JWT: "kind: AuthenticationConfiguration\n"}, nil, "is not the list of jwt"},
		{"empty", "1.34.4", Authentication{JWT: "[]"}, nil, "empty list"},
		{"misspelt", "1.34.4", issuer("audiences", "audience"), nil, `unknown field "audience"`},
		{"plain http", "1.34.4", issuer("https:", "http:"), nil, "must be an https URL"},
		{"no audience", "1.34.4", issuer("[kubernetes]", "[]"), nil, "must name at least one"},
		{"two audiences", "1.34.4", issuer("[kubernetes]", "[a, b]"), nil, "must be MatchAny"},
		{"no prefix", "1.34.4", issuer(`{claim: sub, prefix: "login:"}`, "{claim: sub}"), nil, "claim and no prefix"},
		{"no user", "1.34.4", issuer(`{claim: sub, prefix: "login:"}`, "{}"), nil, "must have a claim or an expression"},
		{"twice", "1.34.4", Authentication{JWT: oneIssuer + oneIssuer}, nil, "takes each once"},
		{"too new", "1.33.13", issuer("{url", "{egressSelectorType: cluster, url"), nil, "1.34 added it"},
		{"new", "1.34.4", issuer("{url", "{egressSelectorType: cluster, url"), nil, ""},
	} {
		err := ValidateAuthentication(c.auth, c.version, c.extra)
		if got := text(err); (c.want == "") != (err == nil) || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestSettingsOnTheMachine(t *testing.T) {
	for _, c := range []struct {
		name     string
		alter    func(*Spec)
		written  []string
		removed  []string
		restarts []string
	}{
		{"nothing changes", func(*Spec) {}, []string{auditPolicy, authenticationConfig}, nil, nil},
		{"another policy", func(s *Spec) { s.Audit.Policy = onePolicy }, []string{auditPolicy, authenticationConfig}, nil, []string{release.APIServer}},
		{"no audit", func(s *Spec) { s.Audit.Off = true }, []string{authenticationConfig}, []string{auditPolicy}, []string{release.APIServer}},
		{"an issuer", func(s *Spec) { s.Authentication.JWT = oneIssuer }, []string{auditPolicy, authenticationConfig}, nil, []string{release.APIServer}},
		{"by flags", func(s *Spec) { s.ExtraArgs = args(release.APIServer, "oidc-issuer-url", "https://x") }, []string{auditPolicy}, []string{authenticationConfig}, []string{release.APIServer}},
		{"a limit", func(s *Spec) { s.Limits = map[string]systemd.Limits{release.Scheduler: {MemoryMax: "1G"}} }, []string{auditPolicy, authenticationConfig}, nil, []string{release.Scheduler}},
	} {
		s := testSpec(t)
		f := converged(t, s)
		c.alter(&s)
		d := mustDecide(t, s, f, now)
		var written []string
		for _, file := range d.files {
			if slices.Contains(settingPaths(), file.Path) {
				written = append(written, file.Path)
			}
		}
		if !slices.Equal(written, c.written) || !slices.Equal(d.remove, c.removed) || !slices.Equal(d.restart, c.restarts) {
			t.Errorf("%s: writes %q, removes %q, restarts %q", c.name, written, d.remove, d.restart)
		}
		if words := drift(s.Replica, f, now); (len(words) > 0) != (len(c.restarts) > 0) {
			t.Errorf("%s: drift %q", c.name, words)
		}
	}
}

// TestSettingsAreTakenBack: with the definitions, also where what ran before is
// of a provider that knew no settings.
func TestSettingsAreTakenBack(t *testing.T) {
	for _, c := range []struct {
		name    string
		before  map[string]string
		written []string
		removed []string
	}{
		{"another policy", map[string]string{auditPolicy: "old policy", authenticationConfig: "old"}, []string{"old policy", "old"}, nil},
		{"an earlier provider", nil, nil, []string{auditPolicy, authenticationConfig}},
	} {
		s := testSpec(t)
		b := beforeOf(s)
		b.Settings = c.before
		if c.before == nil {
			b.Definitions[release.APIServer] = strings.ReplaceAll(b.Definitions[release.APIServer], "  --audit-policy-file="+auditPolicy+" \\\n", "")
		}
		read := readBefore(string(b.file().Content))
		next := s
		next.Audit.Policy = onePolicy
		f := converged(t, next)
		next.Previous = &Previous{Definitions: read.Definitions, Settings: read.Settings}
		d, err := decide(next.Replica, f, now)
		if err != nil {
			t.Fatal(err)
		}
		var written []string
		for _, file := range d.files {
			if slices.Contains(settingPaths(), file.Path) {
				written = append(written, string(file.Content))
			}
		}
		if !slices.Equal(written, c.written) || !slices.Equal(d.remove, c.removed) || !slices.Contains(d.restart, release.APIServer) {
			t.Errorf("%s: writes %q, removes %q, restarts %q", c.name, written, d.remove, d.restart)
		}
	}
}

func TestAuditSpace(t *testing.T) {
	for _, c := range []struct {
		name  string
		audit Audit
		flag  string
		want  int64 // MiB
	}{
		{"by default", Audit{}, "v", 1100},
		{"less", Audit{MaxBackups: 3, MaxSizeMB: 50}, "v", 200},
		{"none", Audit{Off: true}, "v", 0},
		{"flags decide", Audit{}, "audit-log-maxsize", 0},
	} {
		s := testSpec(t)
		s.Audit, s.ExtraArgs = c.audit, args(release.APIServer, c.flag, "1")
		if have := s.auditSpace() >> 20; have != c.want {
			t.Errorf("%s: %d MiB, want %d", c.name, have, c.want)
		}
	}
}

func TestLimitsInUnits(t *testing.T) {
	s := testSpec(t)
	s.Limits = map[string]systemd.Limits{release.APIServer: {MemoryMax: "4G"}}
	for _, c := range components(s.Replica) {
		if limited := strings.Contains(unitText(c), "\nMemoryMax=4G\n"); limited != (c.name == release.APIServer) {
			t.Errorf("%s: limited: %v", c.name, limited)
		}
	}
}
