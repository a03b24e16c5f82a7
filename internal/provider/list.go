package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/list"
	"github.com/hashicorp/terraform-plugin-framework/list/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// machineList lists the resources of one cluster for "terraform query" (Terraform 1.14 and later).
// It begins at one machine. What is listed comes from the cluster itself: etcd's member list, the
// balancers, the records of the machines. The other machines are connected to one after another, and
// only if the query includes the resources: a query that has reached its limit connects to no more.
type machineList struct {
	configured
	kind, description string // the type name, and what it lists
	find              func(ctx context.Context, s *session, from *host.Host) ([]listed, error)
	make              func() resource.Resource
}

// listed is one resource of a list.
type listed struct {
	name     string            // for people
	identity map[string]string // as the resource's identity schema
	importID string            // the ID by which it is imported
}

var (
	_ list.ListResource              = (*machineList)(nil)
	_ list.ListResourceWithConfigure = (*machineList)(nil)
)

// Metadata sets the type name, which is that of the resource.
func (l *machineList) Metadata(_ context.Context, _ resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = l.kind
}

// ListResourceConfigSchema describes the configuration of a list block.
func (l *machineList) ListResourceConfigSchema(
	_ context.Context, _ list.ListResourceSchemaRequest, resp *list.ListResourceSchemaResponse,
) {
	resp.Schema = schema.Schema{
		MarkdownDescription: l.description + " Nothing is changed. No machine has the complete PKI bundle: import it " +
			"(`kube_pki_bundle`), and set `pki` in the generated configuration.",
		Attributes: map[string]schema.Attribute{
			"host": schema.SingleNestedAttribute{
				Required: true, MarkdownDescription: "The machine at which the search begins: any one of the cluster. The " +
					"provider's `ssh` block configures the connection to it, and to the others.",
				Attributes: map[string]schema.Attribute{
					"address": schema.StringAttribute{
						Required: true, Validators: []validator.String{ipValidator()},
						MarkdownDescription: "IP address of the machine in its cluster.",
					},
				},
			},
		},
	}
}

// List looks for what the cluster has, and imports each resource that the query includes.
func (l *machineList) List(ctx context.Context, req list.ListRequest, stream *list.ListResultsStream) {
	var m struct {
		Host types.Object `tfsdk:"host"`
	}
	var diags diag.Diagnostics
	diags.Append(req.Config.Get(ctx, &m)...)
	if diags.HasError() || !l.connected(&diags) {
		stream.Results = list.ListResultsStreamDiagnostics(diags)
		return
	}
	from := l.session.machine(addressOf(m.Host).ValueString())
	stream.Results = func(push func(list.ListResult) bool) {
		searching, cancel := operation(ctx, importTime, l.kind, from.Address())
		all, err := l.find(searching, l.session, from)
		cancel()
		if err != nil {
			addError(&diags, path.Root("host").AtName("address"), "Resources not listed", err)
			push(list.ListResult{Diagnostics: diags})
			return
		}
		for i, each := range all {
			if req.Limit > 0 && int64(i) >= req.Limit || !push(l.result(ctx, req, each)) {
				return
			}
		}
	}
}

// result describes one resource. One that cannot be read is a warning, and not listed: its import
// would fail too.
func (l *machineList) result(ctx context.Context, req list.ListRequest, each listed) list.ListResult {
	result := req.NewListResult(ctx)
	result.DisplayName = each.name
	for name, value := range each.identity {
		result.Diagnostics.Append(result.Identity.SetAttribute(ctx, path.Root(name), types.StringValue(value))...)
	}
	if !req.IncludeResource {
		return result
	}
	imported := resource.ImportStateResponse{State: tfsdk.State{Raw: result.Resource.Raw, Schema: req.ResourceSchema}}
	made := l.make()
	if with, ok := made.(resource.ResourceWithConfigure); ok {
		with.Configure(ctx, resource.ConfigureRequest{ProviderData: l.session}, &resource.ConfigureResponse{})
	}
	if with, ok := made.(resource.ResourceWithImportState); ok {
		with.ImportState(ctx, resource.ImportStateRequest{ID: each.importID}, &imported)
	}
	if imported.Diagnostics.HasError() {
		return list.ListResult{Diagnostics: notListed(each, imported.Diagnostics)}
	}
	result.Diagnostics.Append(imported.Diagnostics...)
	result.Resource.Raw = imported.State.Raw
	return result
}

// notListed turns the errors of an import into warnings, so that the others are listed.
func notListed(each listed, failed diag.Diagnostics) diag.Diagnostics {
	var out diag.Diagnostics
	for _, d := range failed {
		out.AddWarning(problem.Line(each.name)+" is not listed: "+d.Summary(), d.Detail())
	}
	return out
}
