package provider

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/kubevip"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// validateMove checks the endpoints of a replica that stays against those that it has in the state.
func (m replicaModel) validateMove(ctx context.Context, state replicaModel, diags *diag.Diagnostics) {
	stays := m.Name.Equal(state.Name) && addressOf(m.Host).Equal(addressOf(state.Host)) &&
		!otherCluster(state.bundle, m.bundle)
	if !stays || !m.endpointsKnown(ctx) || !state.endpointsKnown(ctx) {
		return
	}
	state.bundle = m.bundle // of the same cluster
	before, after := state.registration(ctx, diags), m.registration(ctx, diags)
	if diags.HasError() {
		return
	}
	if err := refuseElection(before, after); err != nil {
		addError(diags, path.Root("endpoint"), "", err)
		return
	}
	m.validatePortMove(state, before, diags)
	if both := after.Leaving(before); len(both.Additional) > len(after.Additional) {
		m.validateMeanwhile(both, diags)
	}
}

// validatePortMove checks that a replica keeps its port while clients of an endpoint that it has in the state use it.
func (m replicaModel) validatePortMove(state replicaModel, before endpoint.Registration, diags *diag.Diagnostics) {
	if !allKnown(m.Port, state.Port) || m.Port.Equal(state.Port) {
		return
	}
	for _, each := range before.All() {
		if !kindOf(each).direct() {
			continue
		}
		addError(diags, path.Root("port"), "", &problem.Problem{
			Summary: "Port of a replica cannot change", Attribute: "port",
			Cause: fmt.Sprintf("clients of the endpoint %s (%s) reach the API server itself, at the port %d", each.Address,
				each.Kind, state.Port.ValueInt64()),
			Unchanged: problem.Nothing,
			Next: fmt.Sprintf("set it back to %d; or move the replicas to an endpoint of the kind haproxy or external first "+
				"(guide \"Topologies\", Moving to another endpoint)", state.Port.ValueInt64()),
		})
		return
	}
}

// validateMeanwhile checks the endpoints at which a replica is while it moves: those that it leaves are the last ones.
func (m replicaModel) validateMeanwhile(registration endpoint.Registration, diags *diag.Diagnostics) {
	if err := registration.ValidateTogether(); err != nil {
		addInvalid(diags, path.Root("endpoint"), "Invalid move",
			fmt.Errorf("the replica is at its former endpoints until it is in rotation at the others: %w", err))
		return
	}
	m.validatePorts(registration, diags)
}

// endpointsKnown reports whether the registrations of a replica are known.
func (m replicaModel) endpointsKnown(ctx context.Context) bool {
	return allKnown(m.Endpoint) && elementsKnown(ctx, m.Endpoint) && elementsKnown(ctx, m.AdditionalEndpoints)
}

// refuseElection returns an error if an endpoint that a replica keeps would elect the holder of its address in another
// way. The endpoint is replaced then, and its Delete is refused while it has replicas, unless a Create of the same
// endpoint comes first.
func refuseElection(before, after endpoint.Registration) error {
	err := kubevip.CheckChange(before, after)
	if err == nil {
		return nil
	}
	return &problem.Problem{
		Summary: "Endpoint cannot change under its replicas", Attribute: "endpoint", Cause: err.Error(),
		Unchanged: problem.Nothing, Err: err,
		Next: "set it back; or move the replicas to an endpoint of another kind first, and then to this one (guide " +
			"\"Topologies\", Moving to another endpoint); or destroy all replicas and create them again",
	}
}
