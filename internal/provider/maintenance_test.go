package provider

import (
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
)

func TestRequested(t *testing.T) {
	kinds := map[string]attr.Type{"defragment": types.StringType}
	null := types.ObjectNull(kinds)
	with := func(value types.String) types.Object {
		return types.ObjectValueMust(kinds, map[string]attr.Value{"defragment": value})
	}
	march, none := with(types.StringValue("march")), with(types.StringNull())
	for _, c := range []struct {
		name          string
		before, after types.Object
		want          bool
	}{
		{"first", null, march, true},
		{"first key", none, march, true},
		{"the same", march, march, false},
		{"another", march, with(types.StringValue("april")), true},
		{"removed", march, null, false},
		{"key removed", march, none, false},
		{"never", null, null, false},
	} {
		if got := requested(c.before, c.after, "defragment"); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

func TestDefragmentation(t *testing.T) {
	if got := defragmentation(types.Int64Null(), types.BoolNull()); got.MinFree != membership.DefaultMinFree || got.Force {
		t.Errorf("defaults: %+v", got)
	}
	if got := defragmentation(types.Int64Value(0), types.BoolValue(true)); got.MinFree != 0 || !got.Force {
		t.Errorf("given: %+v", got)
	}
}

// invoked invokes an action, and returns what it reports at its end.
func (p planner) invoked(t *testing.T, name string, config map[string]any) string {
	t.Helper()
	server, ok := p.server.(tfprotov6.ProviderServerWithActions) //nolint:staticcheck // ProviderServer lacks it
	if !ok {
		t.Fatal("the provider has no actions")
	}
	kind := p.schemas.ActionSchemas[name].Schema.ValueType()
	stream, err := server.InvokeAction(t.Context(), &tfprotov6.InvokeActionRequest{
		ActionType: name, Config: dynamic(t, kind, valueOf(t, kind, config)),
	})
	if err != nil {
		t.Fatal(err)
	}
	output := ""
	for event := range stream.Events {
		if completed, ok := event.Type.(tfprotov6.CompletedInvokeActionEventType); ok {
			for _, d := range completed.Diagnostics {
				output += d.Severity.String() + ": " + d.Summary + "\n" + d.Detail + "\n"
			}
		}
	}
	return output
}

// TestActionsRefuse: what is wrong is an error with its cause, and nothing is reported as done.
func TestActionsRefuse(t *testing.T) {
	here, _ := bundles(t)
	p := configuredWith(t, map[string]any{"known_hosts": "", "hosts": map[string]any{
		"127.0.0.1": map[string]any{"port": closedPort(t)},
	}})
	etcd := map[string]any{"pki": bundleText(t, here).ValueString(), "peers": map[string]any{"cp1": "127.0.0.1"}}
	for name, c := range map[string]struct {
		action string
		more   map[string]any
		want   string
	}{
		"unreachable, snapshot":   {"kube_etcd_snapshot", nil, "etcd snapshot not saved"},
		"unreachable, leader":     {"kube_etcd_move_leader", nil, "backed by a quorum"},
		"unreachable, defragment": {"kube_etcd_defragment", nil, "backed by a quorum"},
		"no such member":          {"kube_etcd_snapshot", map[string]any{"member": "cp9"}, `"cp9" is not in peers`},
		"no such members": {
			"kube_etcd_defragment", map[string]any{"members": []string{"cp8", "cp1"}}, `"cp8" is not in peers`,
		},
		"members, but none": {"kube_etcd_defragment", map[string]any{"members": []string{}}, "it has no member"},
		"no peers":          {"kube_etcd_move_leader", map[string]any{"peers": map[string]any{}}, "there are no peers"},
		"no bundle":         {"kube_etcd_move_leader", map[string]any{"pki": "{}"}, "Invalid PKI bundle"},
		"address in use": {
			"kube_etcd_snapshot", map[string]any{"peers": map[string]any{"cp1": "127.0.0.1", "cp2": "127.0.0.1"}}, "peers",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			output := p.invoked(t, c.action, with(etcd, c.more))
			if !strings.Contains(output, "ERROR") || !strings.Contains(output, c.want) {
				t.Errorf("%s", output)
			}
		})
	}
	output := p.invoked(t, "kube_control_plane_drain", map[string]any{
		"pki": etcd["pki"], "host": map[string]any{"address": "127.0.0.1"}, "hold": "1m",
	})
	if !strings.Contains(output, "connection refused") || !strings.Contains(output, "ERROR") {
		t.Errorf("drain: %s", output)
	}
}

// TestListRefuses: a machine that cannot be reached lists nothing, and that is an error.
func TestListRefuses(t *testing.T) {
	p := configuredWith(t, map[string]any{"known_hosts": "", "hosts": map[string]any{
		"127.0.0.1": map[string]any{"port": closedPort(t)},
	}})
	server, ok := p.server.(tfprotov6.ProviderServerWithListResource) //nolint:staticcheck // ProviderServer lacks it
	if !ok {
		t.Fatal("the provider lists nothing")
	}
	for name, schema := range p.schemas.ListResourceSchemas {
		kind := schema.ValueType()
		stream, err := server.ListResource(t.Context(), &tfprotov6.ListResourceRequest{
			TypeName: name, Limit: 100,
			Config: dynamic(t, kind, valueOf(t, kind, map[string]any{"host": map[string]any{"address": "127.0.0.1"}})),
		})
		if err != nil {
			t.Fatal(err)
		}
		results := 0
		for result := range stream.Results {
			results++
			if len(result.Diagnostics) != 1 || !strings.Contains(result.Diagnostics[0].Detail, "connection refused") {
				t.Errorf("%s: %+v", name, result)
			}
		}
		if results != 1 {
			t.Errorf("%s: %d results", name, results)
		}
	}
	if len(p.schemas.ListResourceSchemas) != 3 {
		t.Errorf("%d lists", len(p.schemas.ListResourceSchemas))
	}
}
