package provider

import (
	"maps"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// credentialLifecycle calls a resource whose certificate is in the state as Terraform does.
type credentialLifecycle struct {
	t        *testing.T
	resource plannedResource
	schema   schema.Schema
}

// plannedResource is a resource with all methods that a lifecycle calls.
type plannedResource interface {
	resource.ResourceWithModifyPlan
	resource.ResourceWithConfigure
	resource.ResourceWithValidateConfig
}

// as configures the provider's seal.
func (l credentialLifecycle) as(seal *pki.Seal) credentialLifecycle {
	l.resource.Configure(l.t.Context(), resource.ConfigureRequest{
		ProviderData: &session{sealKnown: true, seal: seal},
	}, &resource.ConfigureResponse{})
	return l
}

func (l credentialLifecycle) value(values any) tftypes.Value {
	l.t.Helper()
	return valueOf(l.t, l.schema.Type().TerraformType(l.t.Context()), values)
}

// plan plans values; state is null if the resource is new.
func (l credentialLifecycle) plan(state, values tftypes.Value) resource.ModifyPlanResponse {
	l.t.Helper()
	req := resource.ModifyPlanRequest{
		State: tfsdk.State{Schema: l.schema, Raw: state}, Plan: tfsdk.Plan{Schema: l.schema, Raw: values},
		Config: tfsdk.Config{Schema: l.schema, Raw: values},
	}
	resp := resource.ModifyPlanResponse{Plan: req.Plan}
	l.resource.ModifyPlan(l.t.Context(), req, &resp)
	if resp.Diagnostics.HasError() {
		l.t.Fatal(wordsOf(resp.Diagnostics))
	}
	return resp
}

// apply creates the resource, or updates it if there is a state.
func (l credentialLifecycle) apply(state, planned tftypes.Value) tftypes.Value {
	l.t.Helper()
	plan := tfsdk.Plan{Schema: l.schema, Raw: planned}
	before := tfsdk.State{Schema: l.schema, Raw: state}
	created, updated := resource.CreateResponse{State: before}, resource.UpdateResponse{State: before}
	if state.IsNull() {
		l.resource.Create(l.t.Context(), resource.CreateRequest{Plan: plan}, &created)
		updated.State = created.State
	} else {
		l.resource.Update(l.t.Context(), resource.UpdateRequest{Plan: plan, State: before}, &updated)
	}
	if diags := append(created.Diagnostics, updated.Diagnostics...); diags.HasError() {
		l.t.Fatal(wordsOf(diags))
	}
	return updated.State.Raw
}

func (l credentialLifecycle) attributes(value tftypes.Value) map[string]tftypes.Value {
	l.t.Helper()
	values := map[string]tftypes.Value{}
	if err := value.As(&values); err != nil {
		l.t.Fatal(err)
	}
	return values
}

// changed returns a value with other attributes.
func (l credentialLifecycle) changed(value tftypes.Value, more map[string]any) tftypes.Value {
	l.t.Helper()
	values, wanted := maps.Clone(l.attributes(value)), l.attributes(l.value(more))
	for name := range more {
		values[name] = wanted[name]
	}
	return tftypes.NewValue(value.Type(), values)
}

// differing returns which attributes of two values differ, in the order of names.
func (l credentialLifecycle) differing(a, b tftypes.Value, names ...string) string {
	l.t.Helper()
	one, other := l.attributes(a), l.attributes(b)
	var out []string
	for _, name := range names {
		if !one[name].Equal(other[name]) {
			out = append(out, name)
		}
	}
	return strings.Join(out, " ")
}

// TestCredentialLifecycle: a certificate in the state is issued once and stays until it is due, its CA is rotated or
// the seal changes; the bundle of another cluster replaces it.
func TestCredentialLifecycle(t *testing.T) {
	here, elsewhere := twoClusters(t)
	other, err := pki.Generate(pki.Options{ClusterName: "prod", Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	rotated := *here
	rotated.CA, rotated.EtcdCA = other.CA, other.EtcdCA
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	seal, err := pki.NewSeal([]string{identity.String()}, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	text := func(b *pki.Bundle) any { return bundleText(t, b).ValueString() }
	unknown := func(names ...string) map[string]any {
		values := map[string]any{"sealed_for": tftypes.UnknownValue}
		for _, name := range names {
			values[name] = tftypes.UnknownValue
		}
		return values
	}
	for name, c := range map[string]struct {
		new    func() resource.Resource
		config map[string]any
		issued []string
		sealed string // which of these contain the private key
	}{
		"kubeconfig": {
			newKubeconfigResource,
			map[string]any{
				"server": "https://10.0.0.100:6443", "user": "ann", "groups": []string{"team"}, "validity": "100h",
			},
			[]string{"id", "content", "cluster_ca_certificate", "client_certificate", "client_key", "expires_at"},
			"content client_key",
		},
		"etcd": {
			newEtcdClientResource,
			map[string]any{"user": "prometheus", "validity": "100h"},
			[]string{"id", "ca_certificate", "client_certificate", "client_key", "expires_at"},
			"client_key",
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := credentialLifecycle{t: t, resource: c.new().(plannedResource)}
			var described resource.SchemaResponse
			l.resource.Schema(t.Context(), resource.SchemaRequest{}, &described)
			l.schema = described.Schema
			every, nothing := strings.Join(c.issued, " "), l.value(nil)

			wanted := maps.Clone(c.config)
			wanted["pki"] = text(here)
			maps.Copy(wanted, unknown(c.issued...))
			state := l.as(nil).apply(nothing, l.plan(nothing, l.value(wanted)).Plan.Raw)
			if got := l.differing(state, l.value(wanted), c.issued...); got != every {
				t.Errorf("create has set %q", got)
			}
			for change, c := range map[string]struct {
				more             map[string]any
				bundle           *pki.Bundle // nil: here
				seal             *pki.Seal
				planned, applied string // issued attributes that differ; of applied: id and those of sealed
				replaced         bool
			}{
				"none":           {},
				"unknown bundle": {more: map[string]any{"pki": tftypes.UnknownValue}, planned: every},
				"renewal": {
					more: map[string]any{"early_renewal": "99h59m59.999999s"}, planned: every, applied: "id " + c.sealed,
				},
				"later renewal": {more: map[string]any{"early_renewal": "1h"}},
				"rotation": {
					more: map[string]any{"pki": text(&rotated)}, bundle: &rotated, planned: every, applied: "id " + c.sealed,
				},
				"seal":            {seal: seal, planned: every, applied: c.sealed},
				"another cluster": {more: map[string]any{"pki": text(elsewhere)}, bundle: elsewhere, replaced: true},
			} {
				t.Run(change, func(t *testing.T) {
					l := credentialLifecycle{t, l.resource, l.schema}.as(c.seal)
					resp := l.plan(state, l.changed(state, c.more))
					if got := l.differing(state, resp.Plan.Raw, strings.Fields(every)...); got != c.planned {
						t.Errorf("the plan changes %q, want %q", got, c.planned)
					}
					if len(resp.RequiresReplace) > 0 != c.replaced {
						t.Errorf("replaced by %v", resp.RequiresReplace)
					}
					if c.replaced {
						return
					}
					if c.bundle == nil {
						c.bundle = here
					}
					after := l.apply(state, l.changed(resp.Plan.Raw, map[string]any{"pki": text(c.bundle)}))
					if got := l.differing(state, after, "id", "content", "client_key"); got != c.applied {
						t.Errorf("the apply changes %q, want %q", got, c.applied)
					}
				})
			}
			var validated resource.ValidateConfigResponse
			l.resource.ValidateConfig(t.Context(), resource.ValidateConfigRequest{Config: tfsdk.Config{
				Schema: l.schema, Raw: l.changed(l.value(wanted), map[string]any{"early_renewal": "100h"}),
			}}, &validated)
			if !strings.Contains(wordsOf(validated.Diagnostics), "a new certificate would be due immediately") {
				t.Errorf("with a renewal as early as the validity: %q", wordsOf(validated.Diagnostics))
			}
		})
	}
}
