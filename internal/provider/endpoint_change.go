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
	switch {
	case allKnown(m.External, before.External):
		m.warnSlowerCheck(ctx, before, diags)
	case allKnown(m.HAProxy, before.HAProxy):
		m.refusePort(before, "HAProxy has one port. Kubelets, kubeconfigs and all other clients use the former one, where "+
			"nothing would listen any more.", "another kind, or on other machines", diags)
	case allKnown(m.DNS, before.DNS):
		m.refusePort(before, ownPort, "another kind", diags)
		m.warnZone(ctx, before, diags)
	case allKnown(m.BGP, before.BGP), allKnown(m.KubeVIP, before.KubeVIP):
		m.refusePort(before, ownPort, "another kind", diags)
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

// warnZone warns about records that nobody maintains afterwards.
func (m endpointModel) warnZone(ctx context.Context, before endpointModel, diags *diag.Diagnostics) {
	after, known := m.dns(ctx, diags)
	was, knownBefore := before.dns(ctx, diags)
	if !known || !knownBefore || diags.HasError() {
		return
	}
	from, to := was.zone(ctx, diags), after.zone(ctx, diags)
	if from.Server == to.Server && from.Name == to.Name {
		return
	}
	diags.AddAttributeWarning(path.Root("dns").AtName("server"), "Records at the former name server stay",
		"Cause: the records move from "+from.Server+" (zone "+from.Name+") to "+to.Server+" (zone "+to.Name+") with one "+
			"replica after the other. After that, nothing changes the former ones: they go on naming a replica that has "+
			"gone. A replica that has to restart its API server in the same apply is refused.\nNext step: let clients ask "+
			"the new server when the apply has ended, and not before, then delete the former records.")
}

// warnSlowerCheck warns about a balancer that is told of a slower check before the API servers wait longer for it.
func (m endpointModel) warnSlowerCheck(ctx context.Context, before endpointModel, diags *diag.Diagnostics) {
	after, was := m.external(ctx, diags), before.external(ctx, diags)
	if !after.known(ctx) || !was.known(ctx) || diags.HasError() {
		return
	}
	now, then := after.healthCheck(ctx, diags).DetectionTime(), was.healthCheck(ctx, diags).DetectionTime()
	if now <= then || len(hooksOf(ctx, was.Hooks, diags).Drain) > 0 {
		return
	}
	diags.AddAttributeWarning(path.Root("external").AtName("health_check"), "The balancer's check becomes slower",
		"Cause: an API server that stops goes on serving until the balancer has noticed. Those that run now wait "+
			then.String()+", and "+now.String()+" only after this apply has restarted them.\nNext step: change the "+
			"balancer's check after this apply, not in it.")
}
