package provider

import (
	"maps"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// TestEndpointChanges: clients know one port, so an endpoint keeps it unless the provider does not manage who listens
// there, and whoever looks after the rest is told when to follow.
func TestEndpointChanges(t *testing.T) {
	hook := map[string]any{"external.hooks.drain": []string{"drain"}, "external.hooks.register": []string{"register"}}
	kinds := map[string]map[string]any{
		"haproxy": {"haproxy.hosts": map[string]string{"lb1": "10.0.0.21"}},
		"external": {
			"external.targets": map[string]string{"cp1": "10.0.0.11"}, "external.target_port": int64(6443),
			"external.health_check.interval": "2s", "external.health_check.threshold": int64(3),
		},
		"dns": {
			"dns.targets": map[string]string{"cp1": "10.0.0.11"}, "dns.zone": "example.com", "dns.server": "10.0.0.53",
			"dns.tsig_key": "key",
		},
		"bgp":      {"bgp.targets": map[string]string{"cp1": "10.0.0.11"}, "bgp.asn": int64(64512)},
		"kube_vip": {"kube_vip.targets": map[string]string{"cp1": "10.0.0.11"}},
	}
	for name, c := range map[string]struct {
		kind    string
		before  map[string]any // beside those of the kind
		after   map[string]any
		want    string // "" if there is none
		warning bool
	}{
		"haproxy, the port":    {"haproxy", nil, map[string]any{"port": int64(7443)}, "Port of the endpoint", false},
		"external, the port":   {"external", nil, map[string]any{"port": int64(7443)}, "", false},
		"dns, the port":        {"dns", nil, map[string]any{"port": int64(7443)}, "Port of the endpoint", false},
		"bgp, the port":        {"bgp", nil, map[string]any{"port": int64(7443)}, "Port of the endpoint", false},
		"kube_vip, the port":   {"kube_vip", nil, map[string]any{"port": int64(7443)}, "Port of the endpoint", false},
		"bgp, not known":       {"bgp", nil, map[string]any{"port": types.Int64Unknown()}, "", false},
		"bgp, another address": {"bgp", nil, map[string]any{"port": int64(7443), "address": "10.0.0.101"}, "", false},
		"dns, nothing":         {"dns", nil, nil, "", false},
		"dns, the same server": {"dns", nil, map[string]any{"dns.server": "10.0.0.53:53"}, "", false},
		"dns, another server":  {"dns", nil, map[string]any{"dns.server": "10.0.0.54"}, "to 10.0.0.54:53 (zone", true},
		"dns, another zone":    {"dns", nil, map[string]any{"dns.zone": "com"}, "(zone com)", true},
		"a slower check": {
			"external", nil, map[string]any{"external.health_check.threshold": int64(9)}, "wait 6s, and 18s", true,
		},
		"a faster check": {"external", nil, map[string]any{"external.health_check.threshold": int64(2)}, "", false},
		"a hook drains":  {"external", hook, map[string]any{"external.health_check.threshold": int64(9)}, "", false},
	} {
		before := map[string]any{"address": "10.0.0.100", "port": int64(6443)}
		maps.Copy(before, kinds[c.kind])
		maps.Copy(before, c.before)
		after := maps.Clone(before)
		maps.Copy(after, c.after)
		var diags diag.Diagnostics
		endpointOf(t, after).checkChange(t.Context(), endpointOf(t, before), &diags)
		text := ""
		for _, d := range diags {
			text += d.Summary() + "\n" + d.Detail()
		}
		if (text == "") != (c.want == "") || !strings.Contains(text, c.want) ||
			diags.HasError() == (c.warning || c.want == "") {
			t.Errorf("%s: %q, want %q", name, text, c.want)
		}
	}
}

func endpointOf(t *testing.T, values map[string]any) (m endpointModel) {
	t.Helper()
	state := importedState(t, endpointSchema(t.Context()), values)
	if diags := state.Get(t.Context(), &m); diags.HasError() {
		t.Fatal(diags)
	}
	return m
}
