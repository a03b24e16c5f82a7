package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
)

// checkChange refuses what the replicas of an endpoint cannot follow one after the other, or its clients not at all,
// and warns where something that the provider does not manage has to follow in a certain order.
func (m endpointModel) checkChange(ctx context.Context, before endpointModel, diags *diag.Diagnostics) {
	if !m.Address.Equal(before.Address) {
		return // it is another endpoint
	}
	kind := m.kind()
	if allKnown(kind.arguments(m), kind.arguments(before)) {
		kind.checkChange(ctx, m, before, diags)
	}
}

// ownPort is why an endpoint without balancers keeps its port.
const ownPort = "an endpoint of this kind has the port of its API servers, which restart one after the other. " +
	"Meanwhile, those with one port would not be ready for those with the other one, and clients know one port."

// refusePort refuses another port. next is the endpoint to which replicas can move instead.
func (m endpointModel) refusePort(before endpointModel, cause, next string, diags *diag.Diagnostics) {
	if !allKnown(m.Port, before.Port) || m.Port.Equal(before.Port) {
		return
	}
	diags.AddAttributeError(path.Root("port"), "Port of the endpoint cannot be changed",
		"Cause: "+cause+"\nUnchanged: nothing was changed.\nNext step: keep the port, or move to an endpoint of "+next+
			" (guide \"Topologies\", Moving to another endpoint).")
}
