package provider

import (
	"maps"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// TestUnknownAdditionalEndpoint: a plan may create the endpoint of [kube_control_plane_endpoint.x.registration], whose
// element is not known then. One that is known is complete.
func TestUnknownAdditionalEndpoint(t *testing.T) {
	here, _ := bundles(t)
	complete := map[string]any{
		"address": "10.0.0.200", "port": 6443, "hosts": map[string]any{"a": "10.0.0.21"}, "drain_timeout": "10s",
		"verify_ca": false,
	}
	for name, c := range map[string]struct {
		element any
		want    string
	}{
		"unknown":        {tftypes.UnknownValue, ""},
		"complete":       {complete, ""},
		"without a port": {without(complete, "port"), "port is missing: use the registration"},
		"nothing":        {map[string]any{}, "address is missing"},
	} {
		state := replicaState(t, bundleText(t, here).ValueString(), here.ClusterID)
		for _, computed := range replicaOutputs {
			delete(state, computed)
		}
		state["additional_endpoints"] = []any{c.element}
		output := validated(t, "kube_control_plane_replica", state)
		if (output != "") != (c.want != "") || !strings.Contains(output, c.want) {
			t.Errorf("%s: %q, want %q", name, output, c.want)
		}
	}
}

// without returns a copy of values that lacks one.
func without(values map[string]any, name string) map[string]any {
	rest := maps.Clone(values)
	delete(rest, name)
	return rest
}
