package provider

import (
	"context"
	"encoding/json"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
)

// ImportState derives the arguments from the replica on a machine. The objects themselves need the bundle: the
// next refresh compares them.
func (r *nodeBootstrapResource) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	machine := r.machineFor(ctx, req, &resp.Diagnostics)
	if machine == nil {
		return
	}
	ctx, cancel := operation(ctx, importTime, nodeBootstrapKind, machine.Address())
	defer cancel()
	observed, err := r.session.replicas.Import(ctx, machine, registeredAt)
	if err != nil {
		addError(&resp.Diagnostics, path.Empty(), "Configuration for workers not imported", err)
		return
	}
	i := importer{ctx, resp}
	i.set("id", observed.ClusterID)
	i.clusterEndpoint(observed.Registration)
	i.set("version", observed.Version)
	i.set("service_cidrs", observed.ServiceCIDRs)
	i.set("pod_cidrs", observed.PodCIDRs)
	i.set("cluster_domain", observed.ClusterDomain)
	i.set("discovery_by_file", false)
	i.set("adopt", false)
	i.keepCluster(observed.ClusterID)
}

// registeredAt reads what an import needs of a registration.
func registeredAt(text json.RawMessage) (controlplane.RegisteredAt, error) {
	registration, err := registrationIn(text)
	return controlplane.RegisteredAt{
		Address: registration.Address, Address6: registration.Address6,
		Additional:    registration.AdditionalAddresses(),
		DetectionTime: registration.LongestDetection(), AllAddresses: registration.OnMachines(),
	}, err
}

// clusterEndpoint sets the endpoint of a resource that reaches a cluster through its replicas.
func (i importer) clusterEndpoint(text json.RawMessage) {
	registration, err := registrationIn(text)
	if err != nil {
		return // Import has already rejected it
	}
	whole, diags := registrationObject(i.ctx, registration)
	i.resp.Diagnostics.Append(diags...)
	values, kinds := map[string]attr.Value{}, map[string]attr.Type{}
	for name := range clusterEndpointArguments() {
		values[name], kinds[name] = whole.Attributes()[name], registrationTypes[name]
	}
	object, diags := types.ObjectValue(kinds, values)
	i.resp.Diagnostics.Append(diags...)
	i.set("endpoint", object)
}
