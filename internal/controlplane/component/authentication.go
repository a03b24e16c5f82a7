package component

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
)

// AuthenticationConfigPath is the authentication configuration that the API server
// reads.
const AuthenticationConfigPath = KubernetesDir + "/authentication.yaml"

// healthPaths are open to everybody: the endpoint's health checks and the
// provider's own ask without credentials.
func healthPaths() []string { return []string{"/livez", "/readyz", "/healthz"} }

// Authentication says who may log in beside client certificates, service accounts and
// bootstrap tokens. The zero value is nobody.
type Authentication struct {
	// JWT is YAML: the field jwt of an AuthenticationConfiguration.
	JWT string
	// AnonymousPaths are open to requests without credentials, beside the health
	// paths, as far as RBAC lets system:anonymous.
	AnonymousPaths []string
}

func (a Authentication) set() bool { return a.JWT != "" || len(a.AnonymousPaths) > 0 }

// The file is written as v1beta1 for every release: 1.32 and 1.33 know no other
// version that has all of it, and 1.34 to 1.36, which have v1 too, read it as
// well (k8s.io/apiserver/pkg/apis/apiserver/install). So an upgrade and its
// rollback leave it alone. The fields are the same in both.
const authenticationVersion = "apiserver.config.k8s.io/v1beta1"

type authenticationConfiguration struct {
	APIVersion string           `json:"apiVersion"`
	Kind       string           `json:"kind"`
	Anonymous  anonymousLogin   `json:"anonymous"`
	JWT        []map[string]any `json:"jwt"`
}

type anonymousLogin struct {
	Enabled    bool            `json:"enabled"`
	Conditions []anonymousPath `json:"conditions"`
}

type anonymousPath struct {
	Path string `json:"path"`
}

// authenticationByHand says by which of the API server's extra arguments a user
// configures authentication, or "". Each excludes a file of the provider's: a file
// of the user's own, flags beside which the server takes none
// (BuiltInAuthenticationOptions.Validate), and switched off gates.
func authenticationByHand(extra map[string]string) string {
	if _, given := extra["authentication-config"]; given {
		return `the flag "authentication-config"`
	}
	for name := range extra {
		if strings.HasPrefix(name, "oidc-") {
			return `a flag "oidc-…"`
		}
	}
	gates, err := release.ParseGates(extra[release.FeatureGates])
	if err != nil {
		return "" // said by validateFlag
	}
	for _, g := range gates {
		if !g.On && slices.Contains([]string{"AnonymousAuthConfigurableEndpoints", "StructuredAuthenticationConfiguration", "AllBeta"}, g.Name) {
			return fmt.Sprintf("the feature gate %s=false", g.Name)
		}
	}
	return ""
}

// writesAuthentication reports whether the API server reads a file of the
// provider's.
func (s Replica) writesAuthentication() bool {
	return authenticationByHand(s.ExtraArgs[release.APIServer]) == ""
}

// AuthenticationText is the file. It does not depend on comments and order in the
// configuration, so that changing these restarts nothing.
func (s Replica) AuthenticationText() string {
	config := authenticationConfiguration{
		APIVersion: authenticationVersion, Kind: "AuthenticationConfiguration",
		Anonymous: anonymousLogin{Enabled: true}, JWT: []map[string]any{},
	}
	open := append(healthPaths(), s.Authentication.AnonymousPaths...)
	slices.Sort(open)
	for _, path := range slices.Compact(open) {
		config.Anonymous.Conditions = append(config.Anonymous.Conditions, anonymousPath{path})
	}
	if s.Authentication.JWT != "" {
		if err := yaml.Unmarshal([]byte(s.Authentication.JWT), &config.JWT); err != nil {
			config.JWT = nil // refused by ValidateAuthentication before any machine is touched
		}
	}
	text, err := yaml.Marshal(config)
	if err != nil {
		panic("controlplane: encode authentication configuration: " + err.Error()) // what was read from YAML encodes
	}
	return string(text)
}

// ValidateAuthentication returns why a is invalid beside the extra arguments of the
// API server.
func ValidateAuthentication(a Authentication, version string, extra map[string]string) error {
	if how := authenticationByHand(extra); how != "" && a.set() {
		return fmt.Errorf("authentication is set, and by %s of extra_args.apiserver too: the API server takes one of them; move what that says into authentication, and drop it from extra_args", how)
	}
	for _, path := range a.AnonymousPaths {
		if !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "*?# \t\n") {
			return fmt.Errorf("anonymous path %q: it must begin with /, and stands for itself alone, without wildcards", path)
		}
	}
	if a.JWT == "" {
		return nil
	}
	var jwt []jwtAuthenticator
	if err := yaml.UnmarshalStrict([]byte(a.JWT), &jwt); err != nil {
		return fmt.Errorf("authentication.jwt is not the list of jwt in an AuthenticationConfiguration: %w", err)
	}
	if len(jwt) == 0 {
		return errors.New("authentication.jwt is an empty list: drop it")
	}
	seen := map[string]bool{}
	for i, j := range jwt {
		where := fmt.Sprintf("authentication.jwt[%d]", i)
		if err := j.validate(version); err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
		if seen[j.Issuer.URL] {
			return fmt.Errorf("%s: the issuer %s is there already; the API server takes each once", where, j.Issuer.URL)
		}
		seen[j.Issuer.URL] = true
	}
	return nil
}

// AuthenticationFrom reads back what AuthenticationText has written, or the zero
// value.
func AuthenticationFrom(text string) Authentication {
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
