package provider

import (
	"context"
	"encoding/json"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
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
	observed, err := r.session.replicas.Import(ctx, machine, readEndpoints)
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

// readEndpoints reads the registrations of replicas.
var readEndpoints = controlplane.EndpointReader{At: registeredAt, Foreign: foreignRegistration}

// foreignDetection is the detection time of an endpoint of which nothing is known but its address.
const foreignDetection = 6 * time.Second

// foreignRegistration returns the registration of a replica of kubeadm with the endpoint in its kubeconfigs.
func foreignRegistration(
	at controlplane.HostPort, clusterID, replica, machine string, port int,
) json.RawMessage {
	// strings and numbers always encode
	text, _ := json.Marshal(endpoint.Registration{
		Kind: endpoint.External, Address: at.Host, Port: at.Port, ClusterID: clusterID, TargetPort: port,
		Hosts: map[string]string{replica: machine}, DetectionTime: foreignDetection,
		DrainTimeout: endpoint.DefaultDrainTimeout,
	})
	return text
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
