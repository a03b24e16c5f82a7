package provider

import (
	"context"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/identityschema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/haproxy"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/kubevip"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// IdentitySchema returns the identity of an endpoint: its address, and one of its machines to
// read it from.
func (r *endpointResource) IdentitySchema(
	_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse,
) {
	resp.IdentitySchema = identityschema.Schema{Attributes: map[string]identityschema.Attribute{
		"address": identityschema.StringAttribute{RequiredForImport: true, Description: "The endpoint's address. In an " +
			"import, its kind may come before it, such as haproxy:10.0.0.100: two kinds may have one address for a while."},
		"host": identityschema.StringAttribute{OptionalForImport: true, Description: "Address of one of the " +
			"endpoint's machines, from which the import reads."},
	}}
}

// ImportState reads the endpoint from one of its machines.
func (r *endpointResource) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	machine, named := r.machineNamed(ctx, req, &resp.Diagnostics)
	if machine == nil {
		return
	}
	wanted := wantedIn(named)
	ctx, cancel := operation(ctx, importTime, "kube_control_plane_endpoint", machine.Address())
	defer cancel()
	cluster, recorded := r.registeredOn(ctx, machine)
	if recorded.Address == "" {
		recorded = r.staticPodOn(ctx, machine, &resp.Diagnostics)
		if resp.Diagnostics.HasError() {
			return
		}
	}
	registration, there, err := registrationNamed(machine.Address(), recorded, wanted)
	if err != nil {
		addError(&resp.Diagnostics, path.Empty(), "Endpoint not imported", err)
		return
	}
	if kind, ok := kindOf(registration).(targetsKind); ok {
		i := importer{ctx, resp}
		importRegistration(i, kind, registration)
		i.keepCluster(cluster)
		i.identifyEndpoint(registration.Address)
		return
	}
	observed, err := haproxy.Import(ctx, machine, r.session.machine)
	switch at := (endpoint.Registration{Address: observed.Address}); {
	case err == nil && !wanted.is(at):
		err = otherEndpoint(machine.Address(), at, wanted, nil)
	case err != nil && !there && recorded.Address != "":
		err = otherEndpoint(machine.Address(), recorded, wanted, err)
	}
	if err != nil {
		addError(&resp.Diagnostics, path.Empty(), "Endpoint not imported", err)
		return
	}
	i := importer{ctx, resp}
	i.set("id", observed.Address)
	i.set("address", observed.Address)
	i.set("port", int64(observed.Port))
	i.set("haproxy.hosts", observed.Hosts)
	i.set("haproxy.address6", stringOrNull(observed.Address6))
	i.set("haproxy.additional_addresses", stringsOrNull(observed.Further))
	i.set("haproxy.interface", stringOrNull(observed.Interface))
	i.set("haproxy.virtual_router_id", intOrNull(observed.VirtualRouterID))
	i.set("haproxy.vrrp", stringOrNull(observed.VRRP))
	i.set("haproxy.install_packages", observed.InstallPackages)
	i.set("haproxy.hand_over", stringOrNull(observed.HandOver))
	i.set("haproxy.konnectivity", observedTunnel(observed.Konnectivity))
	i.set("haproxy.liveness_probe", observed.LivenessProbe)
	i.set("haproxy.metrics", observedBalancerMetrics(observed.Metrics, observed.TextfileDirectory))
	i.set("ca_certificate", stringOrNull(observed.CACertificate))
	drain := r.drainOf(ctx, observed)
	i.set("drain_timeout", durationText(drain))
	i.set("url", apiURL(observed.Address, int64(observed.Port)))
	object, diags := registrationObject(ctx, endpoint.Registration{
		Address: observed.Address, Address6: observed.Address6, Further: observed.Further, Port: observed.Port,
		Hosts: observed.Hosts, DrainTimeout: drain, VerifyCA: observed.CACertificate != "", ClusterID: observed.ClusterID,
	})
	resp.Diagnostics.Append(diags...)
	i.set("registration", object)
	i.keepCluster(observed.ClusterID)
	i.identifyEndpoint(observed.Address)
}

func (i importer) identifyEndpoint(address string) {
	identify(i.ctx, i.resp.Identity, types.StringValue(address), &i.resp.Diagnostics)
	if i.resp.Identity != nil {
		i.resp.Diagnostics.Append(i.resp.Identity.SetAttribute(i.ctx, path.Root("host"), types.StringNull())...)
	}
}

// registeredOn returns the registration of the replica on a machine, and its cluster. They are empty
// if there is none that can be read.
func (r *endpointResource) registeredOn(ctx context.Context, machine *host.Host) (string, endpoint.Registration) {
	recorded, err := r.session.replicas.Recorded(ctx, machine)
	if err != nil {
		return "", endpoint.Registration{}
	}
	registration, err := registrationIn(recorded.Registration)
	if err != nil {
		return "", endpoint.Registration{}
	}
	return recorded.ClusterID, registration
}

// staticPodOn returns the endpoint that a static pod of kube-vip has on a machine, or none.
func (r *endpointResource) staticPodOn(
	ctx context.Context, machine *host.Host, diags *diag.Diagnostics,
) endpoint.Registration {
	spec, there, err := kubevip.Import(ctx, machine)
	switch {
	case err != nil:
		addError(diags, path.Empty(), "Endpoint not imported", err)
	case there:
		spec.DrainTimeout = endpoint.DefaultDrainTimeout
		return spec.Registration()
	}
	return endpoint.Registration{}
}

// importRegistration reads an endpoint without balancers from the registration of one of its
// replicas.
func importRegistration(i importer, kind targetsKind, registration endpoint.Registration) {
	i.set("id", registration.Address)
	i.set("address", registration.Address)
	i.set("port", int64(registration.Port))
	kind.importArguments(i, registration)
	i.set("drain_timeout", durationText(registration.DrainTimeout))
	i.set("url", apiURL(registration.Address, int64(registration.Port)))
	object, diags := registrationObject(i.ctx, registration)
	i.resp.Diagnostics.Append(diags...)
	i.set("registration", object)
}

// machineNamed returns the machine that an import reads, and the address of the endpoint
// expected there, if the import names one.
func (r *endpointResource) machineNamed(
	ctx context.Context, req resource.ImportStateRequest, diags *diag.Diagnostics,
) (*host.Host, string) {
	if req.ID != "" || req.Identity == nil {
		on, wanted, _ := strings.Cut(req.ID, "/")
		req.ID = on
		return r.machineFor(ctx, req, diags), wanted
	}
	var address, on types.String
	diags.Append(req.Identity.GetAttribute(ctx, path.Root("address"), &address)...)
	diags.Append(req.Identity.GetAttribute(ctx, path.Root("host"), &on)...)
	if req.ID = on.ValueString(); req.ID == "" && !diags.HasError() {
		diags.AddError("Import not possible", "Cause: the identity does not name a machine to import "+
			"from.\nUnchanged: nothing was changed.\nNext step: set host to the address of one of the endpoint's "+
			"machines.")
		return nil, ""
	}
	return r.machineFor(ctx, req, diags), address.ValueString()
}

// drainOf returns the drain timeout with which the replicas in rotation are registered. A
// change of it reaches the replicas and no balancer.
func (r *endpointResource) drainOf(ctx context.Context, observed haproxy.Imported) time.Duration {
	for _, address := range observed.Replicas {
		recorded, err := r.session.replicas.Recorded(ctx, r.session.machine(address))
		if err != nil {
			continue // the next replica, or finally the record, has it too
		}
		registration, err := registrationIn(recorded.Registration)
		if err != nil {
			continue
		}
		for _, each := range registration.All() {
			if each.ID() == (endpoint.Registration{Address: observed.Address}).ID() {
				return each.DrainTimeout
			}
		}
	}
	return observed.DrainTimeout
}

func stringOrNull(text string) types.String {
	if text == "" {
		return types.StringNull()
	}
	return types.StringValue(text)
}

func intOrNull(number int) types.Int64 {
	if number == 0 {
		return types.Int64Null()
	}
	return types.Int64Value(int64(number))
}
