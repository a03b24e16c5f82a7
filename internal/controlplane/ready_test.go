package controlplane

import (
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/runtime"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

func TestCrashLooping(t *testing.T) {
	units := func(active string, restarts int) map[string]host.UnitState {
		return map[string]host.UnitState{
			release.ControllerManager: {Active: active, Restarts: restarts, Result: "exit-code"},
		}
	}
	for _, c := range []struct {
		name   string
		before int
		now    map[string]host.UnitState
		want   string
	}{
		{"runs", 0, units("active", 0), ""},
		{"restarted twice while its API server started", 0, units("activating", 2), ""},
		{"restarts again and again", 0, units("activating", 3), release.ControllerManager},
		{"restarted often, long ago", 7, units("active", 7), ""},
		{"failed for good", 0, units("failed", 0), release.ControllerManager},
	} {
		if failing, _ := crashLooping(units("active", c.before), c.now); failing != c.want {
			t.Errorf("%s: %q, want %q", c.name, failing, c.want)
		}
	}
}

// TestPodWithoutContainer: a kubelet that refuses a manifest says so in its log alone.
func TestPodWithoutContainer(t *testing.T) {
	s := unreachable(t)
	w := readinessWait{reasons: map[string]string{release.APIServer: "does not answer"}}
	begins := map[string]host.UnitState{release.APIServer: {Active: "activating", Sub: "start"}}
	runs := map[string]host.UnitState{release.APIServer: {Active: "active"}}
	for name, c := range map[string]struct {
		by     string
		states map[string]host.UnitState
		want   bool
	}{
		"a pod without a container": {component.StaticPod, begins, true},
		"it has one meanwhile":      {component.StaticPod, runs, false},
		"a unit":                    {"", begins, false},
	} {
		w.setLacking(runtime.Named(c.by), c.states)
		text := cptest.Text(w.explain(t.Context(), s, errNotReady))
		if strings.Contains(text, "the kubelet may have refused its manifest") != c.want {
			t.Errorf("%s: %s", name, text)
		}
	}
}
