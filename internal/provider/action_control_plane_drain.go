package provider

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/action/schema"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// drainAbout is the promise of a drain on request.
const drainAbout = "The replica leaves rotation only while all others serve, returns when the time is over, and also " +
	"returns if the run is interrupted (Ctrl-C) or fails. No other replica of the control plane changes meanwhile, in " +
	"any process. If the run is killed, the replica stays out, which is drift: the next apply returns it. There is no " +
	"drain without a limit, because nothing would keep the other replicas in rotation once the run has ended."

func newDrainAction() action.Action {
	return &maintenanceAction{
		name: "control_plane_drain",
		description: "Takes a control-plane replica out of rotation for a limited time, for work on its machine. " +
			drainAbout + " Its components keep running, unless leaving the endpoint requires that its API server stops " +
			"(kind `external`). The etcd member on the machine is not affected: move its leadership with " +
			"`kube_etcd_move_leader`. OpenTofu and older versions of Terraform have `maintenance.drain` of " +
			"`kube_control_plane_replica` instead.",
		attributes: map[string]schema.Attribute{
			"pki": actionBundle(), "endpoint": actionEndpoint(),
			"additional_endpoints": actionAdditional(),
			"host": schema.SingleNestedAttribute{
				Required: true, MarkdownDescription: "The machine of the replica.",
				Attributes: map[string]schema.Attribute{
					"address": schema.StringAttribute{
						Required: true, Validators: []validator.String{ipValidator()},
						MarkdownDescription: "IP address of the machine, as in `host.address` of the replica.",
					},
				},
			},
			"hold": schema.StringAttribute{
				Required: true, Validators: []validator.String{durationValidator(), holdValidator()},
				MarkdownDescription: holdAbout,
			},
		},
		invoke: drain,
	}
}

func drain(ctx context.Context, s *session, config tfsdk.Config, diags *diag.Diagnostics) {
	var m struct {
		PKI  types.String `tfsdk:"pki"`
		Host types.Object `tfsdk:"host"`
		hookedEndpoints
		Hold types.String `tfsdk:"hold"`
	}
	diags.Append(config.Get(ctx, &m)...)
	if diags.HasError() {
		return
	}
	bundle := s.mustBundle(m.PKI, diags)
	s.knowHooks(ctx, m.hooked(), bundle, diags)
	hold, err := parseDuration(m.Hold)
	if err != nil {
		addInvalid(diags, path.Root("hold"), "Invalid duration", err)
	}
	if diags.HasError() {
		return
	}
	if err := s.hold(ctx, s.machine(addressOf(m.Host).ValueString()), bundle, hold); err != nil {
		addError(diags, path.Root("host").AtName("address"), "Control-plane replica not drained", err)
	}
}

// hold takes the replica on a machine out of rotation for a time.
func (s *session) hold(ctx context.Context, machine *host.Host, bundle *pki.Bundle, d time.Duration) error {
	return s.replicas.Hold(ctx, s.stacked(machine, bundle), d)
}
