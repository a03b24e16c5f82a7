package provider

import (
	"cmp"
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
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/bgp"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/dns"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/external"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/haproxy"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/kubevip"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// endpointResource is the fixed address of a control plane's API, of one of the kinds of package
// endpoint.
type endpointResource struct {
	machineResource[endpointModel, *endpointModel, endpointKind, endpoint.Status]
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
	switch {
	case !model.DNS.IsNull():
		validateDNS(ctx, model, &resp.Diagnostics)
	case !model.BGP.IsNull():
		validateBGP(ctx, model, &resp.Diagnostics)
	case !model.KubeVIP.IsNull():
		validateKubeVIP(ctx, model, &resp.Diagnostics)
	case !model.External.IsNull():
		validateExternal(ctx, model, &resp.Diagnostics)
	default:
		validateHAProxy(ctx, model, &resp.Diagnostics)
	}
}

// refuseCA rejects a CA certificate for an endpoint without balancers.
func refuseCA(model endpointModel, kind attr.Value, diags *diag.Diagnostics) {
	if allKnown(model.CA, kind) {
		diags.AddAttributeError(path.Root("ca_certificate"), "Argument without effect", "Cause: an endpoint without haproxy "+
			"has no health checks that verify certificates.\nUnchanged: nothing was changed.\nNext step: remove "+
			"ca_certificate.")
	}
}

func validateDNS(ctx context.Context, model endpointModel, diags *diag.Diagnostics) {
	refuseCA(model, model.DNS, diags)
	arguments, known := model.dns(ctx, diags)
	if !known || !allKnown(model.Address) || diags.HasError() {
		return
	}
	zone := arguments.zone(ctx, diags)
	if diags.HasError() {
		return
	}
	address := model.Address.ValueString()
	if err := dns.ValidateZone(zone); err != nil {
		addInvalid(diags, path.Root("dns"), "Invalid zone", err)
	} else if err := dns.ValidateAddress(address, zone.Name); err != nil {
		addInvalid(diags, path.Root("address"), "Invalid endpoint address", err)
	}
	if err := dns.ValidateTargets(address, stringMapOf(ctx, arguments.Targets, diags)); err != nil {
		addInvalid(diags, path.Root("dns").AtName("targets"), "Invalid endpoint targets", err)
	}
}

func validateBGP(ctx context.Context, model endpointModel, diags *diag.Diagnostics) {
	refuseCA(model, model.BGP, diags)
	arguments, known := model.bgp(ctx, diags)
	if !known || !allKnown(model.Address) || model.Port.IsUnknown() || diags.HasError() {
		return
	}
	spec := arguments.spec(ctx, diags)
	spec.Address, spec.Port = model.Address.ValueString(), int(model.Port.ValueInt64()) // 0 is the default
	if diags.HasError() {
		return
	}
	if err := bgp.ValidateRegistration(spec.Registration()); err != nil {
		addInvalid(diags, path.Root("bgp"), "Invalid endpoint", err)
	}
}

func validateKubeVIP(ctx context.Context, model endpointModel, diags *diag.Diagnostics) {
	refuseCA(model, model.KubeVIP, diags)
	arguments, known := model.kubeVIP(ctx, diags)
	if !known || !allKnown(model.Address) || model.Port.IsUnknown() || diags.HasError() {
		return
	}
	spec := arguments.spec(ctx, diags)
	spec.Address, spec.Port = model.Address.ValueString(), int(model.Port.ValueInt64()) // 0 is the default
	if diags.HasError() {
		return
	}
	if err := kubevip.ValidateRegistration(spec.Registration()); err != nil {
		addInvalid(diags, path.Root("kube_vip"), "Invalid endpoint", err)
	}
}

// validateFurther checks the additional addresses against the others.
func validateFurther(ctx context.Context, model endpointModel, balancers haproxyModel, diags *diag.Diagnostics) {
	if balancers.Further.IsNull() || !elementsKnown(ctx, balancers.Further) {
		return
	}
	var hosts map[string]string
	if allKnown(balancers.Hosts) && elementsKnown(ctx, balancers.Hosts) {
		hosts = stringMapOf(ctx, balancers.Hosts, diags)
	}
	err := haproxy.ValidateFurther(model.Address.ValueString(), balancers.Address6.ValueString(),
		stringsOf(ctx, balancers.Further, diags), hosts)
	if err != nil {
		addInvalid(diags, path.Root("haproxy").AtName("additional_addresses"), "Invalid endpoint address", err)
	}
}

func validateHAProxy(ctx context.Context, model endpointModel, diags *diag.Diagnostics) {
	if !allKnown(model.Address) {
		return
	}
	if err := haproxy.ValidateAddress(model.Address.ValueString()); err != nil {
		addInvalid(diags, path.Root("address"), "Invalid endpoint address", err)
		return
	}
	balancers := model.balancers(ctx, diags)
	if allKnown(balancers.Address6) {
		err := haproxy.ValidateAddress6(model.Address.ValueString(), balancers.Address6.ValueString())
		if err != nil {
			addInvalid(diags, path.Root("haproxy").AtName("address6"), "Invalid endpoint address", err)
		}
	}
	validateFurther(ctx, model, balancers, diags)
	if name := balancers.Interface.ValueString(); name != "" {
		if err := haproxy.ValidateInterface(name); err != nil {
			addInvalid(diags, path.Root("haproxy").AtName("interface"), "Invalid interface", err)
		}
	}
	if !balancers.Konnectivity.IsUnknown() && elementsKnown(ctx, balancers.Konnectivity) && !model.Port.IsUnknown() {
		port := cmp.Or(int(model.Port.ValueInt64()), endpoint.DefaultPort)
		if err := haproxy.ValidateKonnectivity(balancers.konnectivity(ctx), port); err != nil {
			addInvalid(diags, path.Root("haproxy").AtName("konnectivity"), "Invalid port of konnectivity", err)
		}
	}
	if !balancers.HandOver.IsUnknown() {
		if err := haproxy.ValidateInherit(balancers.Inherit.ValueBool(), balancers.HandOver.ValueString()); err != nil {
			addInvalid(diags, path.Root("haproxy").AtName("inherit"), "Invalid endpoint", err)
		}
	}
	validateBalancerMetrics(ctx, model, balancers, diags)
	if diags.HasError() || !allKnown(balancers.Hosts) || !elementsKnown(ctx, balancers.Hosts) {
		return
	}
	hosts := stringMapOf(ctx, balancers.Hosts, diags)
	if err := haproxy.ValidateHosts(model.Address.ValueString(), hosts); err != nil {
		addInvalid(diags, path.Root("haproxy").AtName("hosts"), "Invalid endpoint hosts", err)
	}
}

func validateExternal(ctx context.Context, model endpointModel, diags *diag.Diagnostics) {
	refuseCA(model, model.External, diags)
	arguments := model.external(ctx, diags)
	if allKnown(arguments.HealthCheck) && elementsKnown(ctx, arguments.HealthCheck) {
		if err := external.ValidateHealthCheck(arguments.healthCheck(ctx, diags)); err != nil {
			addInvalid(diags, path.Root("external").AtName("health_check"), "Invalid health check", err)
		}
	}
	if diags.HasError() || !allKnown(model.Address, arguments.Targets) || !elementsKnown(ctx, arguments.Targets) {
		return
	}
	wanted := stringMapOf(ctx, arguments.Targets, diags)
	if err := targets.Validate(model.Address.ValueString(), wanted); err != nil {
		addInvalid(diags, path.Root("external").AtName("targets"), "Invalid endpoint targets", err)
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
		if plan.HAProxy.IsNull() != state.HAProxy.IsNull() || plan.DNS.IsNull() != state.DNS.IsNull() ||
			plan.BGP.IsNull() != state.BGP.IsNull() || plan.KubeVIP.IsNull() != state.KubeVIP.IsNull() {
			resp.RequiresReplace = append(resp.RequiresReplace,
				path.Root("haproxy"), path.Root("external"), path.Root("dns"), path.Root("bgp"),
				path.Root("kube_vip"))
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

func (r *endpointResource) createOn(ctx context.Context, s endpointKind) (endpoint.Status, error) {
	return s.create(ctx)
}

func (r *endpointResource) readFrom(
	ctx context.Context, s endpointKind, _ *diag.Diagnostics,
) (endpoint.Status, error) {
	return s.read(ctx)
}

func (r *endpointResource) updateOn(
	ctx context.Context, before, after endpointModel, s endpointKind, diags *diag.Diagnostics,
) (endpoint.Status, error) {
	before.bundle = after.bundle // of the same cluster: the bundle of another one replaces the endpoint
	prior := r.spec(ctx, before, diags)
	if diags.HasError() {
		return endpoint.Status{}, nil
	}
	return s.update(ctx, prior)
}

func (r *endpointResource) deleteFrom(
	ctx context.Context, s endpointKind, superseded func() bool, diags *diag.Diagnostics,
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
func (r *endpointResource) identities(s endpointKind) []string { return s.identities() }

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
