package provider

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// endpointResource is the fixed address of a control plane's API, of one of the kinds of package
// endpoint.
type endpointResource struct {
	machineResource[endpointModel, *endpointModel, endpointSpec, endpoint.Status]
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
		kind: "kube_control_plane_endpoint", noun: "Endpoint",
		create: 10 * time.Minute, update: 10 * time.Minute, gone: endpoint.ErrGone, adopted: endpoint.ErrAdopted,
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
	if resp.Diagnostics.HasError() {
		return
	}
	model.kind().validate(ctx, model, &resp.Diagnostics)
}

// refuseCA rejects a CA certificate for an endpoint without balancers.
func refuseCA(model endpointModel, kind attr.Value, diags *diag.Diagnostics) {
	if allKnown(model.CA, kind) {
		diags.AddAttributeError(path.Root("ca_certificate"), "Argument without effect", "Cause: an endpoint without haproxy "+
			"has no health checks that verify certificates.\nUnchanged: nothing was changed.\nNext step: remove "+
			"ca_certificate.")
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
	warnHandOver(ctx, *plan, state, &resp.Diagnostics)
	if state == nil {
		plan.planRegistration(ctx, plannedCluster(ctx, *plan, endpointModel{}), &resp.Diagnostics)
	} else {
		plan.planRegistration(ctx, plannedCluster(ctx, *plan, *state), &resp.Diagnostics)
		r.planBundle(ctx, plan, state, req, resp)
		if plan.otherKind(*state) {
			resp.RequiresReplace = append(resp.RequiresReplace, kindPaths(endpointKinds)...)
		}
		warnMoved(ctx, *plan, *state, &resp.Diagnostics)
		plan.checkChange(ctx, *state, &resp.Diagnostics)
		if plan.affectsMachine(ctx, *state, r.session) {
			plan.planUpdate()
		} else {
			plan.keepObserved(*state)
		}
	}
	resp.Diagnostics.Append(resp.Plan.Set(ctx, plan)...)
}

// warnMoved warns about the replacement of an endpoint by another address or kind: while replicas are
// registered, the apply refuses it.
func warnMoved(ctx context.Context, plan, state endpointModel, diags *diag.Diagnostics) {
	after, before := plan.registrationID(ctx), state.registrationID(ctx)
	if before == "" || after == "" || before == after {
		return
	}
	diags.AddWarning("Endpoint is replaced", "Cause: "+before+" becomes "+after+", which is another endpoint. Replicas "+
		"that stay cannot follow in the same apply: the old one is destroyed before the new one exists, and that is "+
		"refused while replicas are registered.\nNext step: to move without an interruption, add the new endpoint as a "+
		"resource of its own, and list it in additional_endpoints of every replica (guide \"Topologies\", Moving to "+
		"another endpoint).")
}

// registrationID returns the ID of the endpoint that the model describes, or "" while it is unknown.
func (m endpointModel) registrationID(ctx context.Context) string {
	if !elementsKnown(ctx, m.Registration) || m.Registration.IsNull() {
		return ""
	}
	var ignored diag.Diagnostics // decoding for the machine reports the same diagnostics
	return decodeRegistration(ctx, m.Registration, &ignored).ID()
}

func (r *endpointResource) createOn(ctx context.Context, s endpointSpec) (endpoint.Status, error) {
	return s.create(ctx)
}

func (r *endpointResource) readFrom(
	ctx context.Context, s endpointSpec, _ *diag.Diagnostics,
) (endpoint.Status, error) {
	return s.read(ctx)
}

func (r *endpointResource) updateOn(
	ctx context.Context, before, after endpointModel, s endpointSpec, diags *diag.Diagnostics,
) (endpoint.Status, error) {
	before.bundle = after.bundle // of the same cluster: the bundle of another one replaces the endpoint
	prior := r.spec(ctx, before, diags)
	if diags.HasError() {
		return endpoint.Status{}, nil
	}
	return s.update(ctx, prior)
}

func (r *endpointResource) deleteFrom(
	ctx context.Context, s endpointSpec, superseded func() bool, diags *diag.Diagnostics,
) error {
	err := endpoint.Superseded(superseded).Err()
	if err == nil {
		err = s.remove(ctx, betweenDeletes, superseded, func(why string) {
			diags.AddWarning("Parts of endpoint "+s.address()+" not removed", why)
		})
	}
	if errors.Is(err, endpoint.ErrSuperseded) {
		problem.Progress(ctx, "endpoint %s: another resource in this run has taken it over; it is not deleted", s.address())
		return nil
	}
	return err
}

// priorObject returns an empty object: disruption tracks members and replicas only.
func (r *endpointResource) priorObject(context.Context, endpointModel) priorObject {
	return priorObject{}
}

// betweenDeletes is the time, in addition to the drain, between two replicas that leave the
// endpoint one after the other.
const betweenDeletes = 10 * time.Second

// identities have one in common for two specs of the same endpoint.
func (r *endpointResource) identities(s endpointSpec) []string { return s.identities() }

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
