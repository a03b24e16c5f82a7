package unit

import (
	"maps"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/componenttest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

func TestUnits(t *testing.T) {
	s := componenttest.Stacked(t)
	s.PodCIDRs = []string{"10.244.0.0/16"}
	for _, c := range component.Of(s) {
		cptest.Golden(t, Name(c.Name), string(File(c).Content))
	}
}

// TestUnitsWithKonnectivity: the API server is ordered after the proxy server, and may open its socket.
func TestUnitsWithKonnectivity(t *testing.T) {
	s := componenttest.Stacked(t)
	s.Konnectivity = &component.Konnectivity{
		Program: component.DefaultKonnectivityProgram, AgentPort: component.DefaultAgentPort,
	}
	for _, c := range component.Of(s) {
		if c.Name == release.APIServer || c.Name == component.KonnectivityServer {
			cptest.Golden(t, "konnectivity-"+Name(c.Name), string(File(c).Content))
		}
	}
}

// TestUnitsWithFiles: a unit notes the files of the user that its component reads at its start.
func TestUnitsWithFiles(t *testing.T) {
	s := componenttest.Stacked(t)
	s.ExtraArgs = map[string]map[string]string{
		release.APIServer: {
			"admission-control-config-file": component.ConfigFilePath("admission.yaml"),
			"authorization-config":          component.ConfigFilePath("authorization.yaml"),
		},
		release.Scheduler: {"config": component.ConfigFilePath("scheduler.yaml")},
	}
	s.ConfigFiles = map[string]component.ConfigFile{
		"admission.yaml": {}, "authorization.yaml": {NoRestart: true}, "webhook.conf": {}, "scheduler.yaml": {},
	}
	for _, c := range component.Of(s) {
		if c.Name == release.ControllerManager {
			continue // names none
		}
		cptest.Golden(t, "files-"+Name(c.Name), string(File(c).Content))
	}
}

func TestUnitsCanBeReadBack(t *testing.T) {
	s := componenttest.Stacked(t)
	s.ExtraArgs = map[string]map[string]string{release.APIServer: {
		"spaces":  "a b  c",
		"quotes":  `say "it's" \ so`,
		"percent": "100%n",
		"dollar":  "$HOME ${PATH}",
		"empty":   "",
		"equals":  "a=b,c=d",
		"other":   "a;b",
	}}
	for _, c := range component.Of(s) {
		executable, flags, err := Parse(string(File(c).Content))
		if err != nil {
			t.Fatal(err)
		}
		if executable != c.Program || !maps.Equal(flags, Flags(c)) {
			t.Errorf("%s: read back %s and %v", c.Name, executable, systemd.FlagDifferences(flags, Flags(c)))
		}
	}
}

func TestLimitsInUnits(t *testing.T) {
	s := componenttest.Stacked(t)
	s.Limits = map[string]component.Limits{release.APIServer: {MemoryMax: "4G"}}
	for _, c := range component.Of(s) {
		if limited := strings.Contains(text(c), "\nMemoryMax=4G\n"); limited != (c.Name == release.APIServer) {
			t.Errorf("%s: limited: %v", c.Name, limited)
		}
	}
}
