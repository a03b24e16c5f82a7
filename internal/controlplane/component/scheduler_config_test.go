package component

import (
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
)

func TestCheckSchedulerConfig(t *testing.T) {
	const head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
	const login = "clientConnection: { kubeconfig: /etc/kubernetes/scheduler.conf }\n"
	for name, c := range map[string]struct{ content, warning, err string }{
		"complete":         {head + login + "enableProfiling: false\n", "", ""},
		"unknown":          {"", "", ""},
		"no kubeconfig":    {head + "enableProfiling: false\n", "", "set that to /etc/kubernetes/scheduler.conf"},
		"another":          {head + "clientConnection: { kubeconfig: /root/.kube/config }\n", "", "set that to"},
		"profiling":        {head + login + "enableProfiling: true\n", "serves profiles", ""},
		"profiling unset":  {head + login, "serves profiles", ""},
		"another kind":     {strings.Replace(head, "Scheduler", "Proxy", 1) + login, "", "its kind is not"},
		"not YAML":         {"kind: [", "", "it is not YAML"},
		"a list":           {"- kind: KubeSchedulerConfiguration\n", "", "it is not YAML"},
		"the wrong number": {head + "clientConnection: 7\n", "", "it is not YAML"},
	} {
		files := map[string]ConfigFile{"scheduler.yaml": {Content: c.content}}
		extra := map[string]map[string]string{release.Scheduler: {"config": ConfigFilePath("scheduler.yaml")}}
		warning, err := CheckSchedulerConfig(files, extra)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: error %v, want %q", name, err, c.err)
		}
		if (warning == "") != (c.warning == "") || !strings.Contains(warning, c.warning) {
			t.Errorf("%s: warning %q, want %q", name, warning, c.warning)
		}
	}
	if warning, err := CheckSchedulerConfig(nil, nil); warning != "" || err != nil {
		t.Errorf("without a file: %q, %v", warning, err)
	}
}
