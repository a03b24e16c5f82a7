package provider

import (
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
)

// validated returns the diagnostics of a resource's configuration as one text.
func validated(t *testing.T, kind string, config map[string]any) string {
	t.Helper()
	p := serve(t)
	of := p.schemas.ResourceSchemas[kind].ValueType()
	resp, err := p.server.ValidateResourceConfig(t.Context(), &tfprotov6.ValidateResourceConfigRequest{
		TypeName: kind, Config: dynamic(t, of, valueOf(t, of, config)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return textOfDiagnostics(resp.Diagnostics)
}

func textOfDiagnostics(diagnostics []*tfprotov6.Diagnostic) string {
	var text strings.Builder
	for _, d := range diagnostics {
		text.WriteString(d.Summary + ": " + d.Detail + "\n")
	}
	return text.String()
}

// TestReplicaOnIPv6 checks what the plan says of the families of a replica's addresses.
func TestReplicaOnIPv6(t *testing.T) {
	ranges := func(services ...string) map[string]any { return map[string]any{"service_cidrs": services} }
	for name, c := range map[string]struct {
		change map[string]any
		want   string
	}{
		"IPv6 only": {
			map[string]any{"service_cidrs": []string{"fd00:1::/112"}, "pod_cidrs": []string{"fd00:2::/56"}}, "",
		},
		"the default of service_cidrs": {nil, "Put an IPv6 range first in service_cidrs"},
		"IPv6 first":                   {ranges("fd00:1::/112", "10.96.0.0/12"), ""},
		"IPv4 first":                   {ranges("10.96.0.0/12", "fd00:1::/112"), "Put an IPv6"},
		"another form of a URL": {
			map[string]any{"service_cidrs": []string{"fd00:1::/112"}, "etcd": []string{"https://[fd00:0::11]:2379"}},
			`use "fd00::11"`,
		},
		"no room for Nodes": {
			map[string]any{"service_cidrs": []string{"fd00:1::/112"}, "pod_cidrs": []string{"fd00:2::/112"}},
			"smaller than the /64",
		},
		"smaller parts for Nodes": {map[string]any{
			"service_cidrs": []string{"fd00:1::/112"}, "pod_cidrs": []string{"fd00:2::/112"},
			"extra_args": map[string]any{"controller_manager": map[string]any{"node-cidr-mask-size": "120"}},
		}, ""},
		"another form of the address": {
			map[string]any{"host": map[string]any{"address": "FD00::11"}, "service_cidrs": []string{"fd00:1::/112"}},
			`use "fd00::11"`,
		},
	} {
		config := map[string]any{
			"name": "cp1", "host": map[string]any{"address": "fd00::11"}, "pki": "p", "version": "1.36.3",
			"etcd": []string{"https://[fd00::11]:2379"},
			"endpoint": map[string]any{
				"address": "fd00::100", "port": 6443, "hosts": map[string]any{"cp1": "fd00::11"}, "drain_timeout": "10s",
				"verify_ca": true,
			},
		}
		for attribute, value := range c.change {
			config[attribute] = value
		}
		if got := validated(t, "kube_control_plane_replica", config); (got == "") != (c.want == "") ||
			!strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestFormsOfAddresses: an address in another form would be another machine, and the settings for it
// would have no effect.
func TestFormsOfAddresses(t *testing.T) {
	p := serve(t)
	of := p.schemas.Provider.ValueType()
	for key, want := range map[string]string{"fd00::11": "", "10.0.0.11": "", "FD00:0::11": `use "fd00::11"`} {
		resp, err := p.server.ValidateProviderConfig(t.Context(), &tfprotov6.ValidateProviderConfigRequest{
			Config: dynamic(t, of, valueOf(t, of, map[string]any{"ssh": map[string]any{"hosts": map[string]any{
				key: map[string]any{"port": 2222},
			}}})),
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := textOfDiagnostics(resp.Diagnostics); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("ssh.hosts with %s: %q, want %q", key, got, want)
		}
	}
	endpoint := map[string]any{
		"address": "fd00::100", "pki": "p", "external": map[string]any{
			"targets": map[string]any{"cp1": "fd00::11"}, "probe_from": "fd00:0::12",
		},
	}
	if got := validated(t, "kube_control_plane_endpoint", endpoint); !strings.Contains(got, `use "fd00::12"`) {
		t.Errorf("probe_from: %q", got)
	}
	// The state would have this form, and the configuration the other one: a replacement.
	imported, err := p.server.ImportResourceState(t.Context(), &tfprotov6.ImportResourceStateRequest{
		TypeName: "kube_etcd_member", ID: "fd00:0::11",
	})
	if err != nil || !strings.Contains(textOfDiagnostics(imported.Diagnostics), `use "fd00::11"`) {
		t.Errorf("an import by another form: %v, %v", imported, err)
	}
	if got := addressesOf([]string{"https://[FD00:0::11]:2379", "https://etcd.example:2379"}); got[0] != "fd00::11" ||
		got[1] != "etcd.example" {
		t.Errorf("the machines of URLs are %q", got)
	}
}
