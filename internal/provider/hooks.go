package provider

import (
	"context"
	"slices"

	actionschema "github.com/hashicorp/terraform-plugin-framework/action/schema"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// A replica that uses only the etcd member on its machine leaves rotation while that member restarts. What changes the
// member reads the replica's endpoint from the machine, and its hooks from the configuration.

// hooksAbout describes endpoint of what is not a replica and may take one out of rotation.
const hooksAbout = "The `registration` of the `kube_control_plane_endpoint`, or its `address` and `hooks`. Needed " +
	"only for an external endpoint with hooks, if a replica on the machine uses only the etcd member there: it leaves " +
	"rotation while the member restarts, by these hooks. Without them, that is refused. Default: none."

// memberEndpointModel is the part of a registration that has the hooks.
type memberEndpointModel struct {
	Address types.String `tfsdk:"address"`
	Hooks   types.Object `tfsdk:"hooks"`
}

func memberEndpointSchema() schema.Attribute {
	return schema.SingleNestedAttribute{
		Optional: true, MarkdownDescription: hooksAbout + " A change affects nothing on the machine.",
		Attributes: map[string]schema.Attribute{
			"address": schema.StringAttribute{Required: true, MarkdownDescription: "The endpoint's address."},
			"hooks": hooksSchema("As in `external` of the endpoint. Default: none. A change affects nothing on the " +
				"machine."),
		},
	}
}

func actionEndpoint() actionschema.Attribute {
	command := func(name string) actionschema.Attribute {
		return actionschema.ListAttribute{
			Optional: true, ElementType: types.StringType, MarkdownDescription: "As `hooks." + name + "` there. Default: none.",
		}
	}
	return actionschema.SingleNestedAttribute{
		Optional: true, MarkdownDescription: hooksAbout,
		Attributes: map[string]actionschema.Attribute{
			"address": actionschema.StringAttribute{Required: true, MarkdownDescription: "The endpoint's address."},
			"hooks": actionschema.SingleNestedAttribute{
				Optional: true, MarkdownDescription: "As in `external` of the endpoint. Default: none.",
				Attributes: map[string]actionschema.Attribute{
					"register": command("register"), "drain": command("drain"), "deregister": command("deregister"),
					"status": command("status"),
				},
			},
		},
	}
}

// planHooks notes that the plan has a member without the hooks of an endpoint.
func (m etcdMemberModel) planHooks(s *session) {
	hooks, _ := m.Endpoint.Attributes()["hooks"].(types.Object)
	if s != nil && allKnown(m.ClientURL) && !m.Endpoint.IsUnknown() && hooks.IsNull() {
		s.membersWithoutHooks.Store(m.ClientURL.ValueString(), true)
	}
}

// warnHooks warns of a replica that uses only the member on its machine, if its endpoint has hooks that this member has
// not: the next restart of the member would be refused.
func (m replicaModel) warnHooks(ctx context.Context, s *session, diags *diag.Diagnostics) {
	address := addressOf(m.Host)
	if s == nil || !allKnown(address) || !elementsKnown(ctx, m.Endpoint) || !elementsKnown(ctx, m.Etcd) {
		return
	}
	own := membership.ClientURL(address.ValueString())
	urls := stringsOf(ctx, m.Etcd, diags)
	hooks, _ := m.Endpoint.Attributes()["hooks"].(types.Object)
	_, without := s.membersWithoutHooks.Load(own)
	if without && slices.Equal(urls, []string{own}) && hooksOf(ctx, hooks, diags).Any() {
		diags.AddAttributeWarning(path.Root("endpoint"), "The etcd member has no hooks",
			"Cause: replica "+m.Name.ValueString()+" uses only the etcd member on its machine, and leaves rotation by hooks "+
				"while that restarts, but the kube_etcd_member does not have them. A change that restarts it is refused.\n"+
				"Next step: set endpoint of kube_etcd_member to the registration of the endpoint.")
	}
}

// knowHooks notes the hooks of an endpoint of the bundle's cluster for this run.
func (s *session) knowHooks(ctx context.Context, object types.Object, bundle *pki.Bundle, diags *diag.Diagnostics) {
	if bundle == nil || object.IsNull() || !elementsKnown(ctx, object) {
		return
	}
	var model memberEndpointModel
	diags.Append(object.As(ctx, &model, basetypes.ObjectAsOptions{})...)
	s.registrars.know(endpoint.Registration{
		Address: model.Address.ValueString(), ClusterID: bundle.ClusterID, Hooks: hooksOf(ctx, model.Hooks, diags),
	})
}
