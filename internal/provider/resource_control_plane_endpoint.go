package provider

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// endpointResource is the fixed address of a control plane's API: a virtual IP, managed by
// keepalived, in front of HAProxy on a set of machines.
type endpointResource struct {
	machineResource[endpointModel, *endpointModel, endpoint.Spec, endpoint.Status]
}

var (
	_ resource.Resource                   = (*endpointResource)(nil)
	_ resource.ResourceWithConfigure      = (*endpointResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*endpointResource)(nil)
	_ resource.ResourceWithValidateConfig = (*endpointResource)(nil)
	_ resource.ResourceWithImportState    = (*endpointResource)(nil)
	_ resource.ResourceWithIdentity       = (*endpointResource)(nil)
	_ resource.ResourceWithUpgradeState   = (*endpointResource)(nil)
)

func newEndpointResource() resource.Resource {
	r := &endpointResource{}
	r.domain = r
	r.kindConstants = kindConstants{
		kind: "kube_control_plane_endpoint", noun: "Endpoint", at: path.Root("haproxy").AtName("hosts"),
		create: 10 * time.Minute, update: 10 * time.Minute, gone: endpoint.ErrGone,
	}
	return r
}

func (r *endpointResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = endpointSchema(ctx)
}

// ValidateConfig checks the rules between attributes.
func (r *endpointResource) ValidateConfig(
	ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse,
) {
	var model endpointModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	balancers := model.balancers(ctx, &resp.Diagnostics)
	if resp.Diagnostics.HasError() || !allKnown(model.Address, balancers.Hosts) || !elementsKnown(ctx, balancers.Hosts) {
		return
	}
	hosts := stringMapOf(ctx, balancers.Hosts, &resp.Diagnostics)
	if err := endpoint.ValidateHosts(model.Address.ValueString(), hosts); err != nil {
		addInvalid(&resp.Diagnostics, path.Root("haproxy").AtName("hosts"), "Invalid endpoint hosts", err)
	}
}

// ModifyPlan plans the values that follow from the configuration alone, so that replicas know
// their registration before the endpoint is applied.
func (r *endpointResource) ModifyPlan(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) {
	plan, state := r.decodePlan(ctx, req, &resp.Diagnostics)
	if resp.Diagnostics.HasError() || plan == nil {
		return
	}
	if state == nil {
		plan.planRegistration(ctx, plannedCluster(ctx, *plan, endpointModel{}), &resp.Diagnostics)
	} else {
		plan.planRegistration(ctx, plannedCluster(ctx, *plan, *state), &resp.Diagnostics)
		r.planBundle(ctx, plan, state, req, resp)
		if plan.affectsMachine(ctx, *state, r.session) {
			plan.planUpdate()
		} else {
			plan.keepObserved(*state)
		}
	}
	resp.Diagnostics.Append(resp.Plan.Set(ctx, plan)...)
}

func (r *endpointResource) createOn(ctx context.Context, s endpoint.Spec) (endpoint.Status, error) {
	return endpoint.Create(ctx, s)
}

func (r *endpointResource) readFrom(ctx context.Context, s endpoint.Spec) (endpoint.Status, error) {
	return r.session.registrars.Read(ctx, s)
}

func (r *endpointResource) updateOn(
	ctx context.Context, before, after endpointModel, s endpoint.Spec, diags *diag.Diagnostics,
) (endpoint.Status, error) {
	before.bundle = after.bundle // of the same cluster: the bundle of another one replaces the endpoint
	prior := r.spec(ctx, before, diags)
	if diags.HasError() {
		return endpoint.Status{}, nil
	}
	return endpoint.Update(ctx, prior, s)
}

func (r *endpointResource) deleteFrom(
	ctx context.Context, s endpoint.Spec, superseded func() bool, diags *diag.Diagnostics,
) error {
	if superseded() {
		return nil
	}
	return endpoint.Delete(ctx, s, endpoint.DeleteOptions{
		Abandon:         r.session.abandon,
		WaitForReplicas: s.DrainTimeout + betweenDeletes,
		LeftAlone: func(why string) {
			diags.AddWarning("Host of endpoint "+s.Address+" not changed", problem.Block(why))
		},
	})
}

// priorObject returns an empty object: disruption tracks members and replicas only.
func (r *endpointResource) priorObject(context.Context, endpointModel) priorObject {
	return priorObject{}
}

// betweenDeletes is the time, in addition to the drain, between two replicas that leave the
// endpoint one after the other.
const betweenDeletes = 10 * time.Second

// identity is equal for two specs of the same endpoint.
func (r *endpointResource) identity(s endpoint.Spec) string {
	return identity("kube_control_plane_endpoint", s.ClusterID, s.Address, joined(s.Hosts))
}

// spec returns the spec that the model describes.
func (r *endpointResource) spec(ctx context.Context, m endpointModel, diags *diag.Diagnostics) endpoint.Spec {
	balancers := m.balancers(ctx, diags)
	drain, err := parseDuration(m.DrainTimeout)
	if err != nil {
		addInvalid(diags, path.Root("drain_timeout"), "Invalid duration", err)
	}
	return endpoint.Spec{
		ClusterID:       m.bundle.ClusterID,
		ClusterName:     m.bundle.ClusterName,
		Address:         m.Address.ValueString(),
		Port:            int(m.Port.ValueInt64()),
		Hosts:           r.session.machines(stringMapOf(ctx, balancers.Hosts, diags)),
		Interface:       balancers.Interface.ValueString(),
		VirtualRouterID: int(balancers.VirtualRouterID.ValueInt64()),
		InstallPackages: balancers.InstallPackages.ValueBool(),
		CACertificate:   m.CA.ValueString(),
		DrainTimeout:    drain,
		Abandon:         r.session.abandon,
		Registered:      r.session.registeredAt(m.bundle.ClusterID, m.Address.ValueString()),
	}
}

// plannedCluster returns the cluster of the planned endpoint. A bundle that is only known after
// the apply belongs to the cluster that the endpoint already has: the bundle of another cluster
// would replace the endpoint.
func plannedCluster(ctx context.Context, plan, state endpointModel) types.String {
	if plan.bundle != nil {
		return types.StringValue(plan.bundle.ClusterID)
	}
	var before registrationModel
	if plan.Address.Equal(state.Address) && allKnown(state.Registration) && !state.Registration.As(ctx, &before,
		basetypes.ObjectAsOptions{}).HasError() && allKnown(before.ClusterID) {
		return before.ClusterID
	}
	return types.StringUnknown()
}
