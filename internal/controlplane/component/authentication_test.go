package component

import (
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
)

func TestAuthenticationText(t *testing.T) {
	s := testReplica(t)
	const closed = `anonymous:
  conditions:
  - path: /healthz
  - path: /livez
  - path: /readyz
  enabled: true
apiVersion: apiserver.config.k8s.io/v1beta1
`
	if have := s.AuthenticationText(); have != closed+"jwt: []\nkind: AuthenticationConfiguration\n" {
		t.Errorf("by default:\n%s", have)
	}
	s.Authentication = Authentication{JWT: "# a comment\n" + cptest.Issuer, AnonymousPaths: []string{"/version", "/livez"}}
	have := s.AuthenticationText()
	if !strings.Contains(have, "  - path: /readyz\n  - path: /version\n  enabled: true\n") ||
		strings.Count(have, "/livez") != 1 ||
		!strings.Contains(have, "jwt:\n- claimMappings:\n    groups:\n      claim: groups\n      prefix: \"\"\n") ||
		strings.Contains(have, "comment") {
		t.Errorf("with an issuer:\n%s", have)
	}
	for _, version := range []string{"1.32.13", "1.37.2"} {
		s.Version = version
		if s.AuthenticationText() != have {
			t.Errorf("%s: an upgrade changes the file", version)
		}
	}
}

func TestValidateAuthentication(t *testing.T) {
	issuer := func(old, instead string) Authentication {
		changed := strings.Replace(cptest.Issuer, old, instead, 1)
		if changed == cptest.Issuer {
			t.Fatalf("%q is not in the sample", old)
		}
		return Authentication{JWT: changed}
	}
	for _, c := range []struct {
		name, version string
		auth          Authentication
		extra         map[string]string
		want          string // part of the error; "" means none
	}{
		{"nothing", "1.33.13", Authentication{}, map[string]string{"oidc-issuer-url": "https://x"}, ""},
		{"an issuer", "1.33.13", Authentication{JWT: cptest.Issuer, AnonymousPaths: []string{"/version"}}, nil, ""},
		{
			"flags too", "1.36.3",
			Authentication{JWT: cptest.Issuer},
			map[string]string{"oidc-issuer-url": "https://x"},
			`by a flag "oidc-…" of extra_args`,
		},
		{
			"a file too", "1.36.3",
			Authentication{AnonymousPaths: []string{"/version"}},
			map[string]string{"authentication-config": "/x"},
			`by the flag "authentication-config"`,
		},
		{
			"no gate", "1.33.13",
			Authentication{JWT: cptest.Issuer},
			map[string]string{release.FeatureGates: "StructuredAuthenticationConfiguration=false"},
			"StructuredAuthenticationConfiguration=false",
		},
		{
			"another gate", "1.36.3",
			Authentication{JWT: cptest.Issuer},
			map[string]string{release.FeatureGates: "WatchList=false"},
			"",
		},
		{"relative path", "1.36.3", Authentication{AnonymousPaths: []string{"version"}}, nil, "must begin with /"},
		{"wildcard", "1.36.3", Authentication{AnonymousPaths: []string{"/api/*"}}, nil, "without wildcards"},
		{
			"whole document", "1.36.3",
			Authentication{JWT: "kind: AuthenticationConfiguration\n"},
			nil,
			"is not the list of jwt",
		},
		{"empty", "1.36.3", Authentication{JWT: "[]"}, nil, "empty list"},
		{"misspelt", "1.36.3", issuer("audiences", "audience"), nil, `unknown field "audience"`},
		{"plain http", "1.36.3", issuer("https:", "http:"), nil, "must be an https URL"},
		{"no audience", "1.36.3", issuer("[kubernetes]", "[]"), nil, "must name at least one"},
		{"two audiences", "1.36.3", issuer("[kubernetes]", "[a, b]"), nil, "must be MatchAny"},
		{"no prefix", "1.36.3", issuer(`{claim: sub, prefix: "login:"}`, "{claim: sub}"), nil, "claim and no prefix"},
		{"no user", "1.36.3", issuer(`{claim: sub, prefix: "login:"}`, "{}"), nil, "must have a claim or an expression"},
		{"twice", "1.36.3", Authentication{JWT: cptest.Issuer + cptest.Issuer}, nil, "takes each once"},
		{"too new", "1.33.13", issuer("{url", "{egressSelectorType: cluster, url"), nil, "1.34 added it"},
		{"new", "1.34.4", issuer("{url", "{egressSelectorType: cluster, url"), nil, ""},
	} {
		err := ValidateAuthentication(c.auth, c.version, c.extra)
		if got := cptest.Text(err); (c.want == "") != (err == nil) || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
