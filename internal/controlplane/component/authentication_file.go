package component

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
)

// authenticationFlag names a user's own AuthenticationConfiguration.
const authenticationFlag = "authentication-config"

// CheckAuthenticationConfig checks the file that the flag authentication-config of kube-apiserver names, if its content
// is known. The error says why balancers and the provider, which send no credentials, would see no healthy API server.
// Without the field anonymous, the flag anonymous-auth decides, which is true, and without conditions every path is
// open (k8s.io/apiserver/pkg/apis/apiserver, AnonymousAuthConfig).
func CheckAuthenticationConfig(files map[string]ConfigFile, extra map[string]map[string]string) error {
	names := namedFiles(extra[release.APIServer][authenticationFlag])
	if len(names) != 1 || files[names[0]].Content == "" {
		return nil
	}
	if err := checkAnonymous(files[names[0]].Content); err != nil {
		return fmt.Errorf("file %q: %w", names[0], err)
	}
	return nil
}

// UncheckedFiles warns of files that the plan would check if they were in FilesDir: it does not read others on the
// machine.
func UncheckedFiles(extra map[string]map[string]string) []string {
	var warnings []string
	for _, c := range []struct{ component, flag, needs string }{
		{release.APIServer, authenticationFlag, "it must leave " + strings.Join(healthPaths(), ", ") + " open to requests " +
			"without credentials, or no API server counts as healthy"},
		{release.Scheduler, schedulerConfigFlag, "it must set clientConnection.kubeconfig to " + SchedulerConf + ", and " +
			"enableProfiling to false, because kube-scheduler ignores the provider's flags for these"},
	} {
		if value := extra[c.component][c.flag]; value != "" && len(namedFiles(value)) == 0 {
			warnings = append(warnings, fmt.Sprintf("The flag %q of %s names %s, which no plan reads: %s.", c.flag, c.component,
				value, c.needs))
		}
	}
	return warnings
}

// checkAnonymous returns why the health paths are not open with an AuthenticationConfiguration.
func checkAnonymous(content string) error {
	var config struct {
		Kind      string          `json:"kind"`
		Anonymous *anonymousLogin `json:"anonymous"`
	}
	if err := yaml.Unmarshal([]byte(content), &config); err != nil {
		return errors.New("it is not the configuration of authentication: it is not YAML")
	}
	switch {
	case config.Kind != "AuthenticationConfiguration":
		return errors.New(`its kind is not "AuthenticationConfiguration"`)
	case config.Anonymous == nil:
		return nil
	case !config.Anonymous.Enabled:
		return fmt.Errorf("with anonymous.enabled = false, %s are closed for the endpoint's and the provider's health "+
			"checks, which send no credentials: set it to true, with these paths as conditions",
			strings.Join(healthPaths(), ", "))
	case len(config.Anonymous.Conditions) == 0:
		return nil
	}
	for _, path := range healthPaths() {
		if !slices.Contains(config.Anonymous.Conditions, anonymousPath{path}) {
			return fmt.Errorf("anonymous.conditions does not list %s, which the endpoint's and the provider's health checks "+
				"ask for without credentials: add {path: %s}", path, path)
		}
	}
	return nil
}
