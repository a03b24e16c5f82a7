package controlplane

import (
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
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
		if component, _ := crashLooping(units("active", c.before), c.now); component != c.want {
			t.Errorf("%s: %q, want %q", c.name, component, c.want)
		}
	}
}
