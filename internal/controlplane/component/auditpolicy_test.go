package component

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
)

// TestBuiltInPolicy evaluates the built-in policy with the rules of the API server
// (k8s.io/apiserver/pkg/audit/policy), which return the level at which a request is logged.
func TestBuiltInPolicy(t *testing.T) {
	const admin, admins = "kubernetes-admin", "kubeadm:cluster-admins"
	if err := validatePolicy(BuiltInPolicy); err != nil {
		t.Fatal(err)
	}
	var p policy
	if err := yaml.Unmarshal([]byte(BuiltInPolicy), &p); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		user, group, verb, api, resource, path string
		want                                   string
	}{
		{admin, admins, "get", "", "secrets", "", "Metadata"},
		{"system:node:a", "system:nodes", "watch", "", "secrets", "", "Metadata"},
		{"system:kube-controller-manager", "", "list", "", "secrets", "", "Metadata"},
		{admin, admins, "update", "", "configmaps", "", "Metadata"},
		{"system:node:a", "system:nodes", "watch", "", "configmaps", "", "None"},
		{"system:node:a", "system:nodes", "create", "", "serviceaccounts/token", "", "Metadata"},
		{
			"system:serviceaccount:x:y", "system:serviceaccounts", "create", "authentication.k8s.io", "tokenreviews", "",
			"Metadata",
		},
		{admin, admins, "create", "rbac.authorization.k8s.io", "clusterrolebindings", "", "RequestResponse"},
		{
			"system:serviceaccount:kube-system:x", "system:serviceaccounts:kube-system", "patch", "rbac.authorization.k8s.io",
			"roles", "", "RequestResponse",
		},
		{admin, admins, "list", "rbac.authorization.k8s.io", "roles", "", "Metadata"},
		{admin, admins, "get", "", "pods/exec", "", "Metadata"}, // by WebSocket
		{"system:serviceaccount:kube-system:x", "system:serviceaccounts:kube-system", "get", "", "pods/exec", "", "Metadata"},
		{admin, admins, "create", "", "pods/portforward", "", "Metadata"},
		{admin, admins, "get", "", "services/proxy", "", "Metadata"},
		{admin, admins, "patch", "apps", "deployments", "", "Metadata"},
		{admin, admins, "delete", "", "pods", "", "Metadata"},
		{admin, admins, "create", "", "events", "", "None"},
		{"system:node:a", "system:nodes", "update", "coordination.k8s.io", "leases", "", "None"},
		{"system:node:a", "system:nodes", "patch", "", "nodes/status", "", "None"},
		{"system:node:a", "system:nodes", "create", "", "pods", "", "Metadata"},
		{"system:kube-scheduler", "", "watch", "", "pods", "", "None"},
		{"system:kube-scheduler", "", "create", "", "pods/binding", "", "Metadata"},
		{"system:anonymous", "system:unauthenticated", "get", "", "", "/readyz", "None"},
		{"system:anonymous", "system:unauthenticated", "get", "", "", "/livez/ping", "None"},
		{admin, admins, "get", "", "", "/apis/apps/v1", "None"},
		{admin, admins, "get", "", "", "/metrics", "Metadata"},
		{admin, admins, "get", "", "", "/logs/x", "Metadata"},
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
	guide, err := os.ReadFile(filepath.Join("..", "..", "..", "templates", "guides", "hardening.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(guide), "```yaml\n"+BuiltInPolicy+"```\n") {
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
		want  string // part of the error; "" means none
	}{
		{"nothing", Audit{}, "", ""},
		{"a policy", Audit{Policy: cptest.AuditPolicy, MaxAgeDays: 7}, "", ""},
		{"by hand", Audit{}, "audit-policy-file", ""},
		{"off, by hand", Audit{Off: true}, "audit-policy-file", ""},
		{"other flags", Audit{Policy: cptest.AuditPolicy}, "audit-webhook-config-file", ""},
		{
			"policy twice",
			Audit{Policy: cptest.AuditPolicy},
			"audit-policy-file",
			`audit.policy and the flag "audit-policy-file"`,
		},
		{"age twice", Audit{MaxAgeDays: 3}, "audit-log-maxage", "say the same thing twice; drop the flag"},
		{"off with a policy", Audit{Off: true, Policy: cptest.AuditPolicy}, "", "no effect with audit.enabled = false"},
		{"no YAML", Audit{Policy: "{"}, "", "cannot be read"},
		{"no rules", Audit{Policy: "apiVersion: audit.k8s.io/v1\nkind: Policy\n"}, "", "has no rules"},
		{
			"an old version",
			Audit{Policy: "apiVersion: audit.k8s.io/v1beta1\nkind: Policy\nrules: [{level: None}]\n"},
			"",
			"must be Policy of audit.k8s.io/v1",
		},
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
		if got := cptest.Text(err); (c.want == "") != (err == nil) || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
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
		s := testReplica(t)
		s.Audit, s.ExtraArgs = c.audit, cptest.Args(release.APIServer, c.flag, "1")
		if have := s.AuditSpace() >> 20; have != c.want {
			t.Errorf("%s: %d MiB, want %d", c.name, have, c.want)
		}
	}
}
