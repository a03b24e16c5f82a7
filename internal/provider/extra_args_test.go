package provider

import (
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
)

// lists is one flag map of repeated_args.
func lists(t *testing.T, flags map[string][]string) types.Map {
	t.Helper()
	kind := types.ListType{ElemType: types.StringType}
	values := map[string]attr.Value{}
	for flag, of := range flags {
		values[flag] = stringList(of)
	}
	return types.MapValueMust(kind, values)
}

// inputArgs returns replicas with flags of each form.
func inputArgs(t *testing.T) map[string]replicaModel {
	t.Helper()
	arguments := replicaArguments()
	extra := func(values map[string]attr.Value) types.Object { return nested(t, arguments["extra_args"], values) }
	repeated := func(values map[string]attr.Value) types.Object { return nested(t, arguments["repeated_args"], values) }
	noExtra, noRepeated := types.ObjectNull(extra(nil).AttributeTypes(t.Context())),
		types.ObjectNull(repeated(nil).AttributeTypes(t.Context()))
	issuers := lists(t, map[string][]string{"service-account-issuer": {"https://new", "https://old"}})
	v := stringMap(map[string]string{"v": "2"})
	return map[string]replicaModel{
		"nothing":         {ExtraArgs: noExtra, RepeatedArgs: noRepeated},
		"flags only":      {ExtraArgs: extra(map[string]attr.Value{"apiserver": v}), RepeatedArgs: noRepeated},
		"null components": {ExtraArgs: extra(nil), RepeatedArgs: noRepeated},
		"lists only":      {ExtraArgs: noExtra, RepeatedArgs: repeated(map[string]attr.Value{"apiserver": issuers})},
		"both": {
			ExtraArgs:    extra(map[string]attr.Value{"apiserver": v, "scheduler": v}),
			RepeatedArgs: repeated(map[string]attr.Value{"apiserver": issuers}),
		},
		"both, of different components": {
			ExtraArgs: extra(map[string]attr.Value{"apiserver": v}),
			RepeatedArgs: repeated(
				map[string]attr.Value{"scheduler": lists(t, map[string][]string{"tls-sni-cert-key": {"/a.crt,/a.key"}})}),
		},
		"a list of one": {
			ExtraArgs: noExtra,
			RepeatedArgs: repeated(
				map[string]attr.Value{"apiserver": lists(t, map[string][]string{"service-account-issuer": {"https://one"}})}),
		},
	}
}

// TestArgsReadBack checks that flags are one map for the machine, in the order of their values,
// and that an import returns both arguments as they were configured.
func TestArgsReadBack(t *testing.T) {
	for name, m := range inputArgs(t) {
		t.Run(name, func(t *testing.T) {
			var diags diag.Diagnostics
			s := bareReplica()
			s.ExtraArgs, s.RepeatedArgs = m.ExtraArgs, m.RepeatedArgs
			observed := controlplane.Imported{ExtraArgs: s.extraArgs(t.Context(), &diags), Settings: s.settings(t.Context())}
			into := importer{
				t.Context(),
				&resource.ImportStateResponse{State: importedState(t, replicaSchema(t.Context()), nil)},
			}
			into.extraArgs(observed)
			if diags.HasError() || into.resp.Diagnostics.HasError() {
				t.Fatal(diags, into.resp.Diagnostics)
			}
			for attribute, want := range map[string]types.Object{"extra_args": m.ExtraArgs, "repeated_args": m.RepeatedArgs} {
				if got := objectIn(t, into.resp.State, attribute); !got.Equal(want) {
					t.Errorf("%s is read back as %s, want %s", attribute, got, want)
				}
			}
		})
	}
	var diags diag.Diagnostics
	both := bareReplica()
	both.ExtraArgs, both.RepeatedArgs = inputArgs(t)["both"].ExtraArgs, inputArgs(t)["both"].RepeatedArgs
	if got := both.extraArgs(t.Context(),
		&diags)["kube-apiserver"]; got["service-account-issuer"] != "https://new\nhttps://old" || got["v"] != "2" {
		t.Errorf("the API server has the flags %q", got)
	}
}

// TestValidateArgs checks what a configuration of flags is refused for.
func TestValidateArgs(t *testing.T) {
	p := serve(t)
	kind := p.schemas.ResourceSchemas["kube_control_plane_replica"].ValueType()
	for name, c := range map[string]struct {
		extra, repeated map[string]any
		refused         string
	}{
		"issuers": {repeated: map[string]any{"service-account-issuer": []string{"https://new", "https://old"}}},
		"issuers beside a flag": {
			extra:    map[string]any{"v": "2"},
			repeated: map[string]any{"service-account-issuer": []string{"https://new"}},
		},
		"one value": {extra: map[string]any{"service-account-issuer": "https://new"}},
		"in both": {
			extra:    map[string]any{"service-account-issuer": "https://a"},
			repeated: map[string]any{"service-account-issuer": []string{"https://b"}}, refused: "is also in extra_args",
		},
		"does not repeat": {repeated: map[string]any{"event-ttl": []string{"1h", "2h"}}, refused: "takes one value"},
		"no value":        {repeated: map[string]any{"service-account-issuer": []string{}}, refused: "has no value"},
		"twice": {
			repeated: map[string]any{"service-account-issuer": []string{"https://a", "https://a"}},
			refused:  "twice",
		},
		"owned": {
			repeated: map[string]any{"service-account-key-file": []string{"/a", "/b"}},
			refused:  "takes one value",
		},
		"lines in a list": {
			repeated: map[string]any{"service-account-issuer": []string{"https://a\nhttps://b"}},
			refused:  "several lines",
		},
		"lines in one value": {
			extra:   map[string]any{"service-account-issuer": "https://a\nhttps://b"},
			refused: "into repeated_args",
		},
		"claims": {repeated: map[string]any{"oidc-required-claim": []string{"a=b", "c=d"}}},
	} {
		here, _ := bundles(t)
		state := replicaState(t, bundleText(t, here).ValueString(), here.ClusterID)
		for _, computed := range replicaOutputs {
			delete(state, computed)
		}
		if c.extra != nil {
			state["extra_args"] = map[string]any{"apiserver": c.extra}
		}
		if c.repeated != nil {
			state["repeated_args"] = map[string]any{"apiserver": c.repeated}
		}
		resp, err := p.server.ValidateResourceConfig(t.Context(),
			&tfprotov6.ValidateResourceConfigRequest{
				TypeName: "kube_control_plane_replica",
				Config:   dynamic(t, kind, valueOf(t, kind, state)),
			})
		if err != nil {
			t.Fatal(err)
		}
		output := ""
		for _, d := range resp.Diagnostics {
			output += d.Summary + ": " + d.Detail
		}
		if (output != "") != (c.refused != "") || !strings.Contains(output, c.refused) {
			t.Errorf("%s: %q, want %q", name, output, c.refused)
		}
	}
}
