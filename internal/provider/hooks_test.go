package provider

import (
	"encoding/json"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/external"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
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
	know := func(object types.Object) { s.knowHooks(t.Context(), object, bundle, &diags) }
	expect("not known", endpoint.Hooks{}, true)
	know(memberEndpoint("other.example.com", "/bin/true"))
	know(types.ObjectNull(memberEndpoint("").AttributeTypes(t.Context())))
	expect("those of another endpoint are known", endpoint.Hooks{}, true)
	know(memberEndpoint("api.example.com", hooks.Drain...))
	expect("known", hooks, true)
	know(memberEndpoint("api.example.com"))
	expect("the configuration has none any more", endpoint.Hooks{}, false)
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
	const own, other = "https://10.0.0.11:2379", "https://10.0.0.12:2379"
	for name, test := range map[string]struct {
		member   types.Object
		endpoint types.Object
		etcd     []string
		warns    bool
	}{
		"no endpoint":   {types.ObjectNull(none.AttributeTypes(ctx)), at(hooks), []string{own}, true},
		"no hooks":      {none, at(hooks), []string{own}, true},
		"hooks":         {known, at(hooks), []string{own}, false},
		"other members": {none, at(hooks), []string{own, other}, false},
		"no hook at all": {
			none, at(types.ObjectNull(hooksTypes)), []string{own}, false,
		},
	} {
		s, warnings := &session{}, diag.Diagnostics{}
		etcdMemberModel{ClientURL: types.StringValue(own), Endpoint: test.member}.planHooks(s)
		urls, more := types.SetValueFrom(ctx, types.StringType, test.etcd)
		diags.Append(more...)
		replicaModel{Host: host, Endpoint: test.endpoint, Etcd: urls}.warnHooks(ctx, s, &warnings)
		if got := warnings.WarningsCount() == 1; got != test.warns || warnings.HasError() {
			t.Errorf("%s: %v", name, warnings)
		}
	}
	if diags.HasError() {
		t.Error(diags)
	}
}
