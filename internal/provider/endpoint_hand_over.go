package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/haproxy"
)

func handOverSchema() schema.Attribute {
	return schema.StringAttribute{
		Optional:   true,
		Validators: []validator.String{stringvalidator.OneOf(haproxy.Prepare, haproxy.Take, haproxy.Release)},
		MarkdownDescription: "Moves `address` between these machines and a balancer that serves this control plane there " +
			"(`external` at the same address, guide Topologies). With `prepare`, everything runs, and no machine has the " +
			"address. With `take`, one takes it about a second after nobody else answers for it any more. With `release`, " +
			"the machine that has it gives it up, and ends the connections to it. With `prepare` and `take`, whoever has the " +
			"address must present a certificate of this cluster that names it. A change reloads keepalived. Default: none: " +
			"the machines have the address, and one that another machine has is refused.",
	}
}

func inheritSchema() schema.Attribute {
	return schema.BoolAttribute{
		Optional: true,
		MarkdownDescription: "With `hand_over`, the machines have `address` already, by `haproxy.service` and " +
			"`keepalived.service` of their own, as kubeadm's guide for highly available clusters sets them up on " +
			"control-plane machines. With `prepare`, these go on, and what the endpoint needs runs beside them. With `take`, " +
			"the endpoint has the address on the machine where it is, keepalived's service ends, HAProxy's ends with its " +
			"last connection, and neither starts with the machine again. Default: `false`: another machine has the address.",
	}
}

// warnHandOver warns when a plan begins a step after which somebody else has to act. Without a state, it is an
// endpoint that is created.
func warnHandOver(ctx context.Context, plan endpointModel, state *endpointModel, diags *diag.Diagnostics) {
	after, before := plan.balancers(ctx, diags).HandOver, haproxyModel{}.HandOver
	if state != nil {
		before = state.balancers(ctx, diags).HandOver
	}
	if after.Equal(before) {
		return
	}
	at := path.Root("haproxy").AtName("hand_over")
	inherits := plan.balancers(ctx, diags).Inherit.ValueBool()
	switch after.ValueString() {
	case haproxy.Take:
		if inherits {
			diags.AddAttributeWarning(at, plan.label()+" takes its address from services of these machines", "Cause: hand_over "+
				"is \""+haproxy.Take+"\", with inherit. This apply ends and disables keepalived.service on each machine, and "+
				"haproxy.service with its last connection. Their files stay.\nNext step: after it, remove inherit and hand_over.")
			return
		}
		diags.AddAttributeWarning(at, plan.label()+" takes its address when it is free", "Cause: hand_over is \""+
			haproxy.Take+"\". This apply does not wait for the address.\nNext step: after it, let the balancer that has "+
			"the address give it up, and then remove hand_over.")
	case haproxy.Release:
		diags.AddAttributeWarning(at, plan.label()+" gives its address up", "Cause: hand_over is \""+haproxy.Release+
			"\". Connections to the address end, and new ones wait until somebody else has it.\nNext step: before you apply, "+
			"let the balancer wait for the address, as the guide \"Topologies\" shows. To take the address back, remove "+
			"hand_over.")
	}
}
