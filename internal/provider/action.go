package provider

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/action/schema"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// maintenanceAction is the frame of the actions (Terraform 1.14 and later). Each makes one call into
// a domain package, which follows the rules of every other change. The argument maintenance of the
// resources makes the same calls, for OpenTofu and older versions of Terraform.
type maintenanceAction struct {
	configured
	name, description string // the type name without "kube_"
	attributes        map[string]schema.Attribute
	invoke            func(ctx context.Context, s *session, config tfsdk.Config, diags *diag.Diagnostics)
}

var (
	_ action.Action              = (*maintenanceAction)(nil)
	_ action.ActionWithConfigure = (*maintenanceAction)(nil)
)

// actionTime limits an action. Members wait for each other, as they do in an update.
const actionTime = 2 * time.Hour

func (a *maintenanceAction) Metadata(_ context.Context, req action.MetadataRequest, resp *action.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_" + a.name
}

// Configure takes the data of the provider's Configure.
func (a *maintenanceAction) Configure(_ context.Context, req action.ConfigureRequest, resp *action.ConfigureResponse) {
	a.setSession(req.ProviderData, &resp.Diagnostics)
}

func (a *maintenanceAction) Schema(_ context.Context, _ action.SchemaRequest, resp *action.SchemaResponse) {
	resp.Schema = schema.Schema{MarkdownDescription: a.description, Attributes: a.attributes}
}

// Invoke runs the action and passes its progress on.
func (a *maintenanceAction) Invoke(ctx context.Context, req action.InvokeRequest, resp *action.InvokeResponse) {
	if !a.connected(&resp.Diagnostics) {
		return
	}
	ctx, cancel := operation(ctx, actionTime, "kube_"+a.name, "")
	defer cancel()
	logged := problem.ReportOf(ctx)
	ctx = problem.WithReport(ctx, problem.Report{
		Progress: func(line string) {
			logged.Progress(line)
			resp.SendProgress(action.InvokeProgressEvent{Message: line})
		},
		Detail: logged.Detail,
	})
	a.session.begin()
	a.invoke(ctx, a.session, req.Config, &resp.Diagnostics)
}

// actionBundle is the attribute pki of an action. Attributes of actions cannot be sensitive
// themselves; Terraform keeps the mark of the value.
func actionBundle() schema.Attribute {
	return schema.StringAttribute{
		Required: true, MarkdownDescription: "The `bundle` of the cluster's `kube_pki_bundle`. Terraform keeps it " +
			"sensitive, as it is there.",
	}
}

// actionPeers is the attribute peers of an action on etcd.
func actionPeers() schema.Attribute {
	return schema.MapAttribute{
		Required: true, ElementType: types.StringType,
		MarkdownDescription: "Addresses of the machines of all etcd members, by member name, as in `peers` of " +
			"`kube_etcd_member`.",
	}
}
