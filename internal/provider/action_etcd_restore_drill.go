package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/action/schema"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
)

func newDrillAction() action.Action {
	text := func(description string, check validator.String) schema.Attribute {
		return schema.StringAttribute{
			Optional: true, Validators: []validator.String{check}, MarkdownDescription: description,
		}
	}
	return &maintenanceAction{
		name: "etcd_restore_drill",
		description: "Proves that the cluster can be restored, and measures how long it takes (RTO) and how old the " +
			"snapshot is (RPO). " + drillAbout + ". OpenTofu and older versions of Terraform have the resource of the same " +
			"name instead, which also repeats the drill after a time.",
		attributes: map[string]schema.Attribute{
			"pki": actionBundle(), "peers": actionPeers(),
			"member":           text(drillMember, checked("member name", machine.ValidateName)),
			"snapshot":         text(drillSnapshot, checked("snapshot", validateMachinePath)),
			"fetch":            text(drillFetch, checked("fetch command", validateFetch)),
			"environment_file": text(drillEnvironment, checked("environment file", validateMachinePath)),
			"identity_file":    text(drillIdentity, checked("identity file", validateIdentityFile)),
		},
		invoke: restoreDrill,
	}
}

func restoreDrill(ctx context.Context, s *session, config tfsdk.Config, diags *diag.Diagnostics) {
	var m drillModel
	diags.Append(config.Get(ctx, &m)...)
	if diags.HasError() {
		return
	}
	if m.validateDrill(diags); !diags.HasError() {
		m.run(ctx, s, diags)
	}
}
