package health_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	"github.com/kubequorum/terraform-provider-kube/internal/health"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

func TestReplicas(t *testing.T) {
	observed := []controlplane.Health{
		{Address: "10.0.0.11", Name: "cp1"},
		{Address: "10.0.0.12", Name: "cp2"},              // no balancer lists it
		{Address: "10.0.0.13", Err: host.ErrUnreachable}, // a replica according to the balancers
		{Address: "10.0.0.14", Err: host.ErrUnreachable}, // not listed anywhere
		{Address: "10.0.0.15"},                           // bare
	}
	listed := map[string]string{
		"cp1": "10.0.0.11:6443", "cp3": "10.0.0.13:6443", "cp5": "10.0.0.15:6443",
		"old": "[fd00::9]:6443",
	}
	got := health.Replicas(observed, listed)
	for name, want := range map[string]health.Replica{
		"cp1": {Health: observed[0], Listed: "10.0.0.11:6443"},
		"cp2": {Health: observed[1]},
		"cp3": {Health: observed[2], Listed: "10.0.0.13:6443"},
		"cp5": {Health: observed[4], Listed: "10.0.0.15:6443"},
		"old": {Health: controlplane.Health{Address: "fd00::9"}, Listed: "[fd00::9]:6443"},
	} {
		if r, ok := got[name]; !ok || fmt.Sprint(r) != fmt.Sprint(want) {
			t.Errorf("%s: %+v, want %+v", name, r, want)
		}
	}
	if len(got) != 5 {
		t.Errorf("%d replicas: %v", len(got), got)
	}
	if more := health.UnnamedMachines(listed, []string{"10.0.0.11", "10.0.0.13"}); !slices.Equal(more, []string{
		"10.0.0.15",
		"fd00::9",
	}) {
		t.Errorf("further machines %q", more)
	}
}
