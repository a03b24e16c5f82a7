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

// healthPaths are open to everyone: the health checks of the endpoint and of the provider send
// no credentials.
func healthPaths() []string { return []string{"/livez", "/readyz", "/healthz"} }

// Authentication describes which users may authenticate in addition to client certificates,
// service accounts and bootstrap tokens. The zero value adds none.
type Authentication struct {
	// JWT is YAML: the jwt field of an AuthenticationConfiguration.
	JWT string
	// AnonymousPaths are open to requests without credentials, in addition to the health paths,
	// within what RBAC allows system:anonymous.
	AnonymousPaths []string
}

func (a Authentication) set() bool { return a.JWT != "" || len(a.AnonymousPaths) > 0 }

// The file is written as v1beta1 for every release. 1.32 and 1.33 have no other version with
// all the fields, and 1.34 to 1.37, which also have v1, still read it
// (k8s.io/apiserver/pkg/apis/apiserver/install). An upgrade and its rollback therefore leave
// the file unchanged. The fields are the same in both versions.
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

// authenticationByHand returns the extra argument of the API server that a user configures
// authentication with, or "". Each of them excludes a file written by the provider: a file of
// the user, flags that the server does not accept together with a file
// (BuiltInAuthenticationOptions.Validate), and disabled feature gates.
func authenticationByHand(extra map[string]string) string {
	if _, extraSet := extra[authenticationFlag]; extraSet {
		return `the flag "authentication-config"`
	}
	for name := range extra {
		if strings.HasPrefix(name, "oidc-") {
			return `a flag "oidc-…"`
		}
	}
	gates, err := release.ParseGates(extra[release.FeatureGates])
	if err != nil {
		return "" // reported by validateFlag
	}
	for _, g := range gates {
		if !g.On && slices.Contains([]string{
			"AnonymousAuthConfigurableEndpoints", "StructuredAuthenticationConfiguration", "AllBeta",
		}, g.Name) {
			return fmt.Sprintf("the feature gate %s=false", g.Name)
		}
	}
	return ""
}

// writesAuthentication reports whether the API server reads a file written by the provider.
func (s Replica) writesAuthentication() bool {
	return authenticationByHand(s.ExtraArgs[release.APIServer]) == ""
}

// AuthenticationText returns the content of the file. It does not depend on comments and order
// in the configuration, so changing those restarts nothing.
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
			config.JWT = nil // rejected by ValidateAuthentication before any machine is reached
		}
	}
	text, err := yaml.Marshal(config)
	if err != nil {
		panic("controlplane: encode authentication configuration: " + err.Error()) // values read from YAML always encode
	}
	return string(text)
}

// ValidateAuthentication returns why a is invalid together with the API server's extra
// arguments.
func ValidateAuthentication(a Authentication, version string, extra map[string]string) error {
	if how := authenticationByHand(extra); how != "" && a.set() {
		return fmt.Errorf("authentication is set, and by %s of extra_args.apiserver too: the API server takes one of "+
			"them; move what that says into authentication, and drop it from extra_args", how)
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

// AuthenticationFrom parses what AuthenticationText wrote. It returns the zero value for any
// other text.
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
			panic("controlplane: encode authenticators: " + err.Error()) // values read from YAML always encode
		}
		a.JWT = string(jwt)
	}
	return a
}
