package provider

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/external"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/haproxy"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// memberEndpoint is endpoint of kube_etcd_member, with one hook that drains, or none.
func memberEndpoint(address string, drain ...string) types.Object {
	hooks := types.ObjectNull(hooksTypes)
	if len(drain) > 0 {
		none := types.ListNull(types.StringType)
		hooks = types.ObjectValueMust(hooksTypes, map[string]attr.Value{
			"register": none, "deregister": none, "status": none, "drain": stringList(drain),
		})
	}
	return types.ObjectValueMust(
		map[string]attr.Type{"address": types.StringType, "hooks": types.ObjectType{AttrTypes: hooksTypes}},
		map[string]attr.Value{"address": types.StringValue(address), "hooks": hooks})
}

// TestRecordedHooks: a machine records that there are hooks, and never which. They come from the configuration.
func TestRecordedHooks(t *testing.T) {
	hooks := endpoint.Hooks{Drain: []string{"/usr/local/bin/pool", "drain"}}
	registration := endpoint.Registration{
		Kind: endpoint.External, Address: "api.example.com", ClusterID: "abc", Hooks: hooks,
	}
	text := registrationText(registration)
	if strings.Contains(string(text), "pool") || !strings.Contains(string(text), `"has_hooks":true`) {
		t.Fatalf("a machine records %s", text)
	}
	var read endpoint.Registration
	if err := json.Unmarshal(text, &read); err != nil || !read.HasHooks || read.Key() != registration.Key() {
		t.Fatalf("it is read as %+v, %v", read, err)
	}
	bundle := &pki.Bundle{ClusterID: "abc"}
	s := &session{registrars: registrars{external: external.New(targets.NewObserver(nil, nil)), hooks: &sync.Map{}}}
	recorded := func() endpoint.Registration {
		registrar, ok := s.registrars.recorded(read, "prod").(*external.Registrar)
		if !ok {
			t.Fatal("it is no registrar of an external endpoint")
		}
		return registrar.Registration
	}
	expect := func(what string, hooks endpoint.Hooks, has bool) {
		t.Helper()
		if got := recorded(); !reflect.DeepEqual(got.Hooks, hooks) || got.HasHooks != has {
			t.Errorf("%s: %+v, %t", what, got.Hooks, got.HasHooks)
		}
	}
	var diags diag.Diagnostics
	know := func(objects ...types.Object) { s.knowHooks(t.Context(), objects, bundle, &diags) }
	expect("not known", endpoint.Hooks{}, true)
	know(memberEndpoint("api.example.com"))
	expect("a member names the address alone", endpoint.Hooks{}, true)
	know(memberEndpoint("other.example.com", "/bin/true"))
	know(types.ObjectNull(memberEndpoint("").AttributeTypes(t.Context())))
	expect("those of another endpoint are known", endpoint.Hooks{}, true)
	know(memberEndpoint("api.example.com", hooks.Drain...))
	expect("known", hooks, true)
	know(memberEndpoint("api.example.com"))
	know(memberEndpoint("10.0.0.100"), memberEndpoint("api.example.com", hooks.Drain...))
	expect("those of an additional endpoint", hooks, true)
	know(memberEndpoint("api.example.com", hooks.Drain...), memberEndpoint("api.example.com"))
	expect("balancers have the same address", hooks, true)
	know(memberEndpoint("api.example.com"))
	expect("another member names the address alone", hooks, true)
	s.registrars.know(endpoint.Registration{Kind: endpoint.External, Address: "api.example.com", ClusterID: "abc"})
	expect("the configuration of a replica has none any more", endpoint.Hooks{}, false)
	if diags.HasError() {
		t.Error(diags)
	}
}

// TestQueriesLeaveHooksKnown: a resource that only asks the replicas of an endpoint does not have its hooks, and what
// reads a record has none either. What a replica's configuration says stays known, for the endpoint of that kind.
func TestQueriesLeaveHooksKnown(t *testing.T) {
	ctx, none := t.Context(), endpoint.Hooks{}
	pool, err := host.NewPool(host.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s := &session{pool: pool}
	observer := targets.NewObserver(s.machine, nil)
	s.registrars = registrars{
		external: external.New(observer), haproxy: haproxy.NewRegistrars(s.machine), hooks: &sync.Map{},
	}
	first := endpoint.Registration{Kind: endpoint.External, Address: "api.example.com", ClusterID: "abc"}
	second := endpoint.Registration{Kind: endpoint.External, Address: "10.0.0.100", ClusterID: "abc"}
	balancers := endpoint.Registration{Kind: endpoint.HAProxy, Address: second.Address, ClusterID: "abc"}
	var diags diag.Diagnostics
	object := func(r endpoint.Registration, drain ...string) types.Object {
		out, more := registrationObject(ctx, r)
		diags.Append(more...)
		attributes := out.Attributes()
		attributes["hooks"] = memberEndpoint("", drain...).Attributes()["hooks"]
		return types.ObjectValueMust(registrationTypes, attributes)
	}
	expect := func(what string, r endpoint.Registration, hooks endpoint.Hooks, has bool) {
		t.Helper()
		r.HasHooks = true
		registrar, ok := s.registrars.recorded(r, "prod").(*external.Registrar)
		if !ok || !reflect.DeepEqual(registrar.Hooks, hooks) || registrar.HasHooks != has {
			t.Errorf("%s: %+v", what, registrar)
		}
	}
	query := func(r endpoint.Registration) {
		arguments, _ := clusterEndpointSchema("").GetType().(types.ObjectType)
		model, more := types.ObjectValueFrom(ctx, arguments.AttrTypes, queryEndpointModel{
			Address: types.StringValue(r.Address), ClusterID: types.StringValue(r.ClusterID),
			Kind: types.StringValue(string(r.Kind)), Further: types.ListNull(types.StringType),
			Hosts: types.MapNull(types.StringType), Zone: types.ObjectNull(zoneTypes),
			BGP: types.ObjectNull(announcementTypes), KubeVIP: types.ObjectNull(electionTypes),
		})
		diags.Append(more...)
		s.registrars.For(decodeEndpoint(ctx, model, nil, &diags))
	}
	query(first)
	expect("asked before a replica", first, none, true)
	replica := replicaBehind(object(first, "/bin/first"))
	replica.bundle = &pki.Bundle{ClusterID: "abc"}
	r := &replicaResource{}
	r.session = s
	additional := func(objects ...types.Object) {
		replica.AdditionalEndpoints = listOf(ctx, registrationTypes, objects, &diags)
		r.spec(ctx, replica, &diags)
	}
	additional(object(second, "/bin/second"))
	query(first)
	query(second)
	expect("the first", first, endpoint.Hooks{Drain: []string{"/bin/first"}}, true)
	expect("an additional one", second, endpoint.Hooks{Drain: []string{"/bin/second"}}, true)
	additional(object(balancers))
	expect("balancers have the address", second, endpoint.Hooks{Drain: []string{"/bin/second"}}, true)
	additional(object(second))
	expect("the configuration has none any more", second, none, false)
	if diags.HasError() {
		t.Error(diags)
	}
}

// TestHooksAreMissing: the plan warns of a replica that leaves rotation by hooks that the member on its machine lacks.
func TestHooksAreMissing(t *testing.T) {
	ctx := t.Context()
	var diags diag.Diagnostics
	at := func(hooks types.Object) types.Object {
		object, more := registrationObject(ctx, endpoint.Registration{Kind: endpoint.External, Address: "api.example.com"})
		diags.Append(more...)
		attributes := object.Attributes()
		attributes["hooks"] = hooks
		return types.ObjectValueMust(registrationTypes, attributes)
	}
	none := memberEndpoint("api.example.com")
	known := memberEndpoint("api.example.com", "/bin/true")
	hooks, _ := known.Attributes()["hooks"].(types.Object)
	host := types.ObjectValueMust(map[string]attr.Type{"address": types.StringType},
		map[string]attr.Value{"address": types.StringValue("10.0.0.11")})
	const own, others = "https://10.0.0.11:2379", "https://10.0.0.12:2379"
	other := memberEndpoint("10.0.0.100", "/bin/true")
	for name, test := range map[string]struct {
		member     []types.Object // endpoint, and the additional one
		endpoint   types.Object
		additional []types.Object
		etcd       []string
		warns      bool
	}{
		"no endpoint":      {nil, at(hooks), nil, []string{own}, true},
		"no hooks":         {[]types.Object{none}, at(hooks), nil, []string{own}, true},
		"hooks":            {[]types.Object{known}, at(hooks), nil, []string{own}, false},
		"those of another": {[]types.Object{other}, at(hooks), nil, []string{own}, true},
		"other members":    {[]types.Object{none}, at(hooks), nil, []string{own, others}, false},
		"no hook at all": {
			[]types.Object{none}, at(types.ObjectNull(hooksTypes)), nil, []string{own}, false,
		},
		"an additional endpoint": {
			nil, at(types.ObjectNull(hooksTypes)), []types.Object{at(hooks)}, []string{own}, true,
		},
		"an additional endpoint, known": {
			[]types.Object{other, known}, at(types.ObjectNull(hooksTypes)), []types.Object{at(hooks)}, []string{own}, false,
		},
	} {
		s, warnings := &session{}, diag.Diagnostics{}
		member := etcdMemberModel{ClientURL: types.StringValue(own)}
		member.Endpoint = types.ObjectNull(none.AttributeTypes(ctx))
		if len(test.member) > 0 {
			member.Endpoint = test.member[0]
			member.AdditionalEndpoints = listOf(ctx, none.AttributeTypes(ctx), test.member[1:], &diags)
		}
		member.planHooks(ctx, s, &diags)
		urls, more := types.SetValueFrom(ctx, types.StringType, test.etcd)
		diags.Append(more...)
		replicaModel{
			Host: host, Endpoint: test.endpoint, Etcd: urls,
			AdditionalEndpoints: listOf(ctx, registrationTypes, test.additional, &diags),
		}.warnHooks(ctx, s, &warnings)
		if got := warnings.WarningsCount() == 1; got != test.warns || warnings.HasError() {
			t.Errorf("%s: %v", name, warnings)
		}
	}
	if diags.HasError() {
		t.Error(diags)
	}
}

func listOf(
	ctx context.Context, of map[string]attr.Type, objects []types.Object, diags *diag.Diagnostics,
) types.List {
	list, more := types.ListValueFrom(ctx, types.ObjectType{AttrTypes: of}, objects)
	diags.Append(more...)
	return list
}

// TestHooksReturn: a hook that drains needs one that registers, wherever hooks are an argument.
func TestHooksReturn(t *testing.T) {
	const drained = "drain without register"
	drain, register := []string{"./pool", "disable"}, []string{"./pool", "add"}
	at := func(hooks map[string]any) map[string]any {
		return map[string]any{"address": "api.example.com", "hooks": hooks}
	}
	p := serve(t)
	validate := func(kind string, config map[string]any) string {
		if of := p.schemas.ResourceSchemas[kind]; of != nil {
			return validated(t, kind, config)
		}
		server, ok := p.server.(tfprotov6.ProviderServerWithActions) //nolint:staticcheck // ProviderServer lacks it
		if !ok {
			t.Fatal("the provider has no actions")
		}
		of := p.schemas.ActionSchemas[kind].Schema.ValueType()
		resp, err := server.ValidateActionConfig(t.Context(), &tfprotov6.ValidateActionConfigRequest{
			ActionType: kind, Config: dynamic(t, of, valueOf(t, of, config)),
		})
		if err != nil {
			t.Fatal(err)
		}
		return textOfDiagnostics(resp.Diagnostics)
	}
	for name, c := range map[string]struct {
		hooks   map[string]any
		refused bool
	}{
		"drain":    {map[string]any{"drain": drain}, true},
		"no drain": {map[string]any{"register": register}, false},
		"both":     {map[string]any{"drain": drain, "register": register}, false},
		"unknown":  {map[string]any{"drain": drain, "register": tftypes.UnknownValue}, false},
		"empty":    {map[string]any{"drain": drain, "register": []string{}}, true},
	} {
		external := map[string]any{"targets": map[string]any{"cp1": "10.0.0.11"}, "hooks": c.hooks}
		for kind, config := range map[string]map[string]any{
			"kube_control_plane_endpoint": {"address": "api.example.com", "external": external},
			"kube_control_plane_replica":  {"endpoint": at(c.hooks)},
			"kube_etcd_member":            {"additional_endpoints": []any{at(c.hooks)}},
			"kube_control_plane_drain":    {"endpoint": at(c.hooks)},
			"kube_etcd_defragment":        {"additional_endpoints": []any{at(c.hooks)}},
		} {
			if got := validate(kind, config); strings.Contains(got, drained) != c.refused {
				t.Errorf("%s, %s: %s", kind, name, got)
			}
		}
	}
}
