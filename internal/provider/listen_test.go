package provider

import (
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
)

// TestListen: an API server that listens on all addresses shares no port with HAProxy on the same machine, whoever
// requires it. A replica is one of the targets, on the same machine.
func TestListen(t *testing.T) {
	haproxyAt := func(port int, hosts ...string) endpoint.Registration {
		r := endpoint.Registration{Address: "10.0.0.100", Port: port, DrainTimeout: time.Second, Hosts: map[string]string{}}
		for _, host := range hosts {
			r.Hosts[host] = host
		}
		return r
	}
	external := endpoint.Registration{
		Kind: endpoint.External, Address: "10.0.0.200", Port: 6443, TargetPort: 6443, DrainTimeout: time.Second,
		DetectionTime: time.Second, Hosts: map[string]string{"cp1": "10.0.0.11"},
	}
	renamed, moved := external, external
	renamed.Hosts, moved.Hosts = map[string]string{"cp1.": "10.0.0.11"}, map[string]string{"cp1": "10.0.0.12"}
	for _, c := range []struct {
		name       string
		listen     string // "" is null
		endpoint   endpoint.Registration
		additional []endpoint.Registration
		want       string
	}{
		{"by default", "", haproxyAt(6443, "10.0.0.11"), nil, ""},
		{"the same port", "all", haproxyAt(6443, "10.0.0.11", "10.0.0.12"), nil, "listen: Cause: the API server listens on " +
			"port 6443 of all addresses"},
		{"another port", "all", haproxyAt(443, "10.0.0.11"), nil, ""},
		{"other machines", "all", haproxyAt(6443, "10.0.0.21"), nil, ""},
		{"a balancer of the platform", "all", external, nil, ""},
		{"no target", "", renamed, nil, `endpoint: Cause: none of the targets of the endpoint 10.0.0.200 is called "cp1"`},
		{"another machine", "", moved, nil, `endpoint: Cause: the endpoint 10.0.0.200 has the target "cp1" at 10.0.0.12`},
		{"of another endpoint", "all", external, []endpoint.Registration{haproxyAt(6443, "10.0.0.11")}, "listen: "},
	} {
		values := map[string]any{"name": "cp1", "host.address": "10.0.0.11", "port": int64(6443)}
		if c.listen != "" {
			values["listen"] = c.listen
		}
		state := importedState(t, replicaSchema(t.Context()), values)
		object := func(r endpoint.Registration) types.Object {
			object, diags := registrationObject(t.Context(), r)
			if diags.HasError() {
				t.Fatal(diags)
			}
			return object
		}
		state.SetAttribute(t.Context(), path.Root("endpoint"), object(c.endpoint))
		var additional []types.Object
		for _, r := range c.additional {
			additional = append(additional, object(r))
		}
		state.SetAttribute(t.Context(), path.Root("additional_endpoints"), additional)
		var m replicaModel
		var diags diag.Diagnostics
		diags.Append(state.Get(t.Context(), &m)...)
		if diags.HasError() {
			t.Fatal(diags)
		}
		m.validateEndpoints(t.Context(), &diags)
		if got := runtimeErrors(diags); (c.want == "") != (got == "") || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestReplicaPort: the port of a replica is that of an endpoint whose clients reach the API server itself, and the
// target_port of an external one.
func TestReplicaPort(t *testing.T) {
	external := endpoint.Registration{
		Kind: endpoint.External, Address: "10.0.0.200", Port: 443, TargetPort: 6443, DrainTimeout: time.Second,
		DetectionTime: time.Second, ClusterID: "a", Hosts: map[string]string{"cp1": "10.0.0.11"},
	}
	byHand := external
	byHand.TargetPort = 0
	balanced := endpoint.Registration{
		Address: "10.0.0.100", Port: 443, ClusterID: "a", DrainTimeout: time.Second,
		Hosts: map[string]string{"lb1": "10.0.0.21"},
	}
	at := func(r endpoint.Registration, port int) endpoint.Registration {
		r.Port, r.TargetPort = port, port
		return r
	}
	for name, c := range map[string]struct {
		at   endpoint.Registration
		want string
	}{
		"HAProxy":                  {balanced, ""},
		"bgp":                      {announcedFrom("10.0.0.100"), ""},
		"bgp at another port":      {at(announcedFrom("10.0.0.100"), 443), "endpoint 10.0.0.100 (bgp) has port 443, and the"},
		"kube_vip at another port": {at(heldAt("arp", ""), 443), "endpoint 10.0.0.100 (kube_vip) has port 443"},
		"an additional one":        {alsoAt(balanced, at(announcedFrom("10.0.0.101"), 443)), "10.0.0.101 (bgp) has port 443"},
		"external":                 {external, ""},
		"external, by hand":        {byHand, ""},
		"external, other targets":  {at(external, 7443), "sends requests to port 7443 of its targets"},
	} {
		m := replicaAt(t, c.at)
		values := m.Endpoint.Attributes()
		values["cluster_id"] = types.StringUnknown() // before the first apply
		m.Endpoint = types.ObjectValueMust(registrationTypes, values)
		var diags diag.Diagnostics
		m.validateEndpointPorts(t.Context(), &diags)
		if got := runtimeErrors(diags); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestChangedPort: clients of an endpoint without balancers use the port of the API servers.
func TestChangedPort(t *testing.T) {
	balanced := endpoint.Registration{
		Address: "10.0.0.100", Port: 443, ClusterID: "a", DrainTimeout: time.Second,
		Hosts: map[string]string{"lb1": "10.0.0.21"},
	}
	for name, c := range map[string]struct {
		before, after endpoint.Registration
		want          string
	}{
		"HAProxy":       {balanced, balanced, ""},
		"stays":         {announcedFrom("10.0.0.101"), announcedFrom("10.0.0.101"), "port: Cause: clients of"},
		"leaves":        {announcedFrom("10.0.0.101"), balanced, "port: Cause: clients of"},
		"leaves in one": {alsoAt(balanced, heldAt("arp", "")), balanced, "port: Cause: clients of"},
		"comes":         {balanced, announcedFrom("10.0.0.101"), ""},
	} {
		state, plan := replicaAt(t, c.before), replicaAt(t, c.after)
		state.Port = types.Int64Value(7443)
		var diags diag.Diagnostics
		plan.validateMove(t.Context(), state, &diags)
		if got := runtimeErrors(diags); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestListenAffectsMachine: a change of listen is one of the machine.
func TestListenAffectsMachine(t *testing.T) {
	before, after := bareReplica(), bareReplica()
	after.Listen = types.StringValue(listenAll)
	if !after.affectsMachine(t.Context(), before, &session{}) || before.affectsMachine(t.Context(), before, &session{}) {
		t.Error("a change of listen changes no machine")
	}
}
