package component

import (
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
)

func TestCheckAuthenticationConfig(t *testing.T) {
	const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n"
	const file = "login.yaml"
	all := head + "anonymous: {enabled: true, conditions: [{path: /livez}, {path: /readyz}, {path: /healthz}, " +
		"{path: /version}]}\n"
	for name, c := range map[string]struct{ content, err string }{
		"all health paths": {all, ""},
		"every path":       {head + "anonymous: {enabled: true}\n", ""},
		"by the flag":      {head + "jwt: []\n", ""},
		"unknown":          {"", ""},
		"closed":           {head + "anonymous: {enabled: false}\n", "anonymous.enabled = false"},
		"nothing about it": {head + "anonymous: {}\n", "anonymous.enabled = false"},
		"without /livez":   {strings.Replace(all, "{path: /livez}, ", "", 1), "list /livez"},
		"without /readyz":  {strings.Replace(all, "{path: /readyz}, ", "", 1), "list /readyz"},
		"without /healthz": {strings.Replace(all, "{path: /healthz}, ", "", 1), "list /healthz"},
		"another kind":     {strings.Replace(all, "Authentication", "Authorization", 1), "its kind"},
		"not YAML":         {"kind: [", "it is not YAML"},
		"a list":           {"- kind: AuthenticationConfiguration\n", "it is not YAML"},
	} {
		err := CheckAuthenticationConfig(map[string]ConfigFile{file: {Content: c.content}},
			cptest.Args(release.APIServer, authenticationFlag, ConfigFilePath(file)))
		if (err == nil) != (c.err == "") || !strings.Contains(cptest.Text(err), c.err) {
			t.Errorf("%s: error %v, want %q", name, err, c.err)
		}
	}
	if err := CheckAuthenticationConfig(nil, nil); err != nil {
		t.Errorf("without a flag: %v", err)
	}
}

// TestUncheckedFiles: the plan warns of what it would check, and says what to look for.
func TestUncheckedFiles(t *testing.T) {
	for _, c := range []struct{ component, flag, value, want string }{
		{release.APIServer, authenticationFlag, "/srv/login.yaml", "/livez, /readyz, /healthz"},
		{release.APIServer, authenticationFlag, ConfigFilePath("login.yaml"), ""},
		{release.APIServer, "authorization-config", "/srv/authorization.yaml", ""},
		{release.Scheduler, schedulerConfigFlag, "/srv/scheduler.yaml", "clientConnection.kubeconfig to " + SchedulerConf},
		{release.Scheduler, schedulerConfigFlag, ConfigFilePath("scheduler.yaml"), ""},
	} {
		got := strings.Join(UncheckedFiles(cptest.Args(c.component, c.flag, c.value)), "\n")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) || got != "" && !strings.Contains(got, c.value) {
			t.Errorf("--%s=%s: %q, want %q", c.flag, c.value, got, c.want)
		}
	}
}
