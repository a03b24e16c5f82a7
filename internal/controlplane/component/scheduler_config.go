package component

import (
	"errors"
	"fmt"

	"sigs.k8s.io/yaml"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
)

// schedulerConfigFlag names a KubeSchedulerConfiguration.
const schedulerConfigFlag = "config"

// schedulerConfig is the part of a KubeSchedulerConfiguration that replaces flags of the provider.
type schedulerConfig struct {
	Kind             string `json:"kind"`
	ClientConnection struct {
		Kubeconfig string `json:"kubeconfig"`
	} `json:"clientConnection"`
	EnableProfiling *bool `json:"enableProfiling"`
}

// CheckSchedulerConfig checks the file that the flag config of kube-scheduler names, if its content
// is known, which is only one of files. With such a file, kube-scheduler ignores the flags kubeconfig and profiling
// (cmd/kube-scheduler/app/options, DeprecatedOptions). err says why it would not reach the API server;
// warning says that profiling, which the provider switches off, is on again.
func CheckSchedulerConfig(files map[string]ConfigFile, extra map[string]map[string]string) (warning string, err error) {
	names := namedFiles(extra[release.Scheduler][schedulerConfigFlag])
	if len(names) != 1 || files[names[0]].Content == "" {
		return "", nil
	}
	var config schedulerConfig
	if err := yaml.Unmarshal([]byte(files[names[0]].Content), &config); err != nil {
		return "", fmt.Errorf("file %q: it is not the configuration of kube-scheduler: it is not YAML", names[0])
	}
	switch {
	case config.Kind != "KubeSchedulerConfiguration":
		err = errors.New(`its kind is not "KubeSchedulerConfiguration"`)
	case config.ClientConnection.Kubeconfig != SchedulerConf:
		err = fmt.Errorf(`with it, kube-scheduler ignores the flag "kubeconfig", and logs in with `+
			`clientConnection.kubeconfig alone: set that to %s`, SchedulerConf)
	case config.EnableProfiling == nil || *config.EnableProfiling:
		return fmt.Sprintf(`With file %q, kube-scheduler ignores the flag "profiling", which the provider sets to `+
			`false, and serves profiles.`, names[0]), nil
	}
	if err != nil {
		err = fmt.Errorf("file %q: %w", names[0], err)
	}
	return "", err
}
