package provider

import (
	"context"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	actionschema "github.com/hashicorp/terraform-plugin-framework/action/schema"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/external"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// A replica that uses only the etcd member on its machine leaves rotation while that member restarts. What changes the
// member reads the replica's endpoint from the machine, and its hooks from the configuration.

// hooksAbout describes endpoint of what is not a replica and may take one out of rotation.
const hooksAbout = "The `registration` of the `kube_control_plane_endpoint`, or its `address` and `hooks`. Required " +
	"if the endpoint is external with hooks and a replica on the machine uses only the etcd member there: the hooks " +
	"take the replica out of rotation while the member restarts. Without them, the restart is refused. Default: none."

// memberEndpointModel is the part of a registration that has the hooks.
type memberEndpointModel struct {
	Address types.String `tfsdk:"address"`
	Hooks   types.Object `tfsdk:"hooks"`
}

// additionalHooksAbout describes additional_endpoints of the same resources and actions.
const additionalHooksAbout = "The same for each of the `additional_endpoints` of the replica that has hooks. " +
	"Default: none."

const unchangedMachine = " A change affects nothing on the machine."

func memberEndpointSchema() schema.Attribute {
	return schema.SingleNestedAttribute{
		Optional: true, MarkdownDescription: hooksAbout + unchangedMachine,
		Attributes: map[string]schema.Attribute{
			"address": schema.StringAttribute{Required: true, MarkdownDescription: "The endpoint's address."},
			"hooks":   memberHooksSchema(),
		},
	}
}

// memberAdditionalSchema does not require the address of an element, see registrationElements.
func memberAdditionalSchema() schema.Attribute {
	return schema.ListNestedAttribute{
		Optional: true, Validators: []validator.List{listvalidator.SizeAtMost(endpoint.MaxAdditional)},
		MarkdownDescription: additionalHooksAbout + unchangedMachine,
		NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"address": schema.StringAttribute{
				Optional: true, MarkdownDescription: "The endpoint's address. Default: none; hooks without it are not used." +
					unchangedMachine,
			},
			"hooks": memberHooksSchema(),
		}},
	}
}

func memberHooksSchema() schema.Attribute {
	return hooksSchema("As in `external` of the endpoint. Default: none." + unchangedMachine)
}

func actionEndpoint() actionschema.Attribute {
	return actionschema.SingleNestedAttribute{
		Optional: true, MarkdownDescription: hooksAbout, Attributes: actionEndpointArguments(),
	}
}

func actionAdditional() actionschema.Attribute {
	return actionschema.ListNestedAttribute{
		Optional: true, MarkdownDescription: additionalHooksAbout,
		NestedObject: actionschema.NestedAttributeObject{Attributes: actionEndpointArguments()},
	}
}

func actionEndpointArguments() map[string]actionschema.Attribute {
	command := func(name string) actionschema.Attribute {
		return actionschema.ListAttribute{
			Optional: true, ElementType: types.StringType, MarkdownDescription: "As `hooks." + name + "` there. Default: none.",
		}
	}
	return map[string]actionschema.Attribute{
		"address": actionschema.StringAttribute{Required: true, MarkdownDescription: "The endpoint's address."},
		"hooks": actionschema.SingleNestedAttribute{
			Optional: true, Validators: []validator.Object{returningHooks{}},
			MarkdownDescription: "As in `external` of the endpoint. Default: none.",
			Attributes: map[string]actionschema.Attribute{
				"register": command("register"), "drain": command("drain"), "deregister": command("deregister"),
				"status": command("status"),
			},
		},
	}
}

// returningHooks refuses hooks by which a replica leaves rotation and does not return.
type returningHooks struct{}

func (returningHooks) Description(context.Context) string { return "drain requires register" }

func (v returningHooks) MarkdownDescription(ctx context.Context) string { return v.Description(ctx) }

func (returningHooks) ValidateObject(
	ctx context.Context, req validator.ObjectRequest, resp *validator.ObjectResponse,
) {
	if !elementsKnown(ctx, req.ConfigValue) {
		return
	}
	if err := external.ValidateHooks(hooksOf(ctx, req.ConfigValue, &resp.Diagnostics)); err != nil {
		addInvalid(&resp.Diagnostics, req.Path, "Invalid hooks", err)
	}
}

// hookedEndpoints are endpoint and additional_endpoints of what is not a replica and may take one out of rotation.
type hookedEndpoints struct {
	Endpoint            types.Object `tfsdk:"endpoint"`
	AdditionalEndpoints types.List   `tfsdk:"additional_endpoints"`
}

func (e hookedEndpoints) hooked() []types.Object {
	return append([]types.Object{e.Endpoint}, objectsIn(e.AdditionalEndpoints)...)
}

// left returns the endpoints whose address after does not have.
func (e hookedEndpoints) left(after hookedEndpoints) []types.Object {
	return slices.DeleteFunc(e.hooked(), func(before types.Object) bool {
		return slices.ContainsFunc(after.hooked(), func(o types.Object) bool { return addressOf(o).Equal(addressOf(before)) })
	})
}

// objectsIn returns the elements of a list of objects.
func objectsIn(list types.List) []types.Object {
	var out []types.Object
	for _, element := range list.Elements() {
		if object, ok := element.(types.Object); ok {
			out = append(out, object)
		}
	}
	return out
}

// hookedAddresses returns the addresses of the endpoints that have hooks. All values are known.
func hookedAddresses(ctx context.Context, endpoints []types.Object, diags *diag.Diagnostics) []string {
	var addresses []string
	for _, object := range endpoints {
		hooks, _ := object.Attributes()["hooks"].(types.Object)
		if hooksOf(ctx, hooks, diags).Any() {
			addresses = append(addresses, addressOf(object).ValueString())
		}
	}
	return addresses
}

// planHooks notes the endpoints of which a planned member has the hooks.
func (m etcdMemberModel) planHooks(ctx context.Context, s *session, diags *diag.Diagnostics) {
	if s != nil && allKnown(m.ClientURL) && elementsKnown(ctx, m.Endpoint) && elementsKnown(ctx, m.AdditionalEndpoints) {
		s.memberHooks.Store(m.ClientURL.ValueString(), hookedAddresses(ctx, m.hooked(), diags))
	}
}

// warnHooks warns of a replica that uses only the member on its machine, if one of its endpoints has hooks that this
// member has not: the next restart of the member would be refused.
func (m replicaModel) warnHooks(ctx context.Context, s *session, diags *diag.Diagnostics) {
	address := addressOf(m.Host)
	if s == nil || !allKnown(address) || !elementsKnown(ctx, m.Endpoint) || !elementsKnown(ctx, m.AdditionalEndpoints) ||
		!elementsKnown(ctx, m.Etcd) {
		return
	}
	own := membership.ClientURL(address.ValueString())
	planned, ok := s.memberHooks.Load(own)
	if !ok || !slices.Equal(stringsOf(ctx, m.Etcd, diags), []string{own}) {
		return
	}
	known, _ := planned.([]string)
	missing := slices.DeleteFunc(hookedAddresses(ctx, append([]types.Object{m.Endpoint}, m.additional()...), diags),
		func(at string) bool { return slices.Contains(known, at) })
	if len(missing) > 0 {
		diags.AddAttributeWarning(path.Root("endpoint"), "The etcd member has no hooks",
			"Cause: replica "+m.Name.ValueString()+" uses only the etcd member on its machine, and leaves rotation by hooks "+
				"while that restarts, but the kube_etcd_member does not have those of "+strings.Join(missing, ", ")+". A change "+
				"that restarts it is refused.\nNext step: set endpoint and additional_endpoints of kube_etcd_member to the "+
				"registrations of these endpoints.")
	}
}

// knowHooks notes the hooks of endpoints of the bundle's cluster for this run. That there are none says nothing: an
// address alone is accepted too, and the replica's record says whether its endpoint has hooks. Two kinds of endpoint
// may have the same address while one takes over, and only an external one has hooks.
func (s *session) knowHooks(
	ctx context.Context, endpoints []types.Object, bundle *pki.Bundle, diags *diag.Diagnostics,
) {
	if bundle == nil {
		return
	}
	for _, object := range endpoints {
		if object.IsNull() || !elementsKnown(ctx, object) {
			continue
		}
		var model memberEndpointModel
		diags.Append(object.As(ctx, &model, basetypes.ObjectAsOptions{})...)
		if hooks := hooksOf(ctx, model.Hooks, diags); hooks.Any() {
			s.registrars.know(endpoint.Registration{
				Kind: endpoint.External, Address: model.Address.ValueString(), ClusterID: bundle.ClusterID, Hooks: hooks,
			})
		}
	}
}
