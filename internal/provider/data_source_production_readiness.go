package provider

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/datasource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/readiness"
)

// productionReadinessDataSource is a production-readiness review of a running control plane. An
// item that cannot be read is unknown, never an error.
type productionReadinessDataSource struct {
	configured
	now func() time.Time
}

var (
	_ datasource.DataSource              = (*productionReadinessDataSource)(nil)
	_ datasource.DataSourceWithConfigure = (*productionReadinessDataSource)(nil)
)

type productionReadinessModel struct {
	PKI      types.String   `tfsdk:"pki"`
	Signed   types.Object   `tfsdk:"signed"`
	Etcd     types.Set      `tfsdk:"etcd"`
	Endpoint types.Object   `tfsdk:"endpoint"`
	Accepted types.Set      `tfsdk:"accepted"`
	Timeouts timeouts.Value `tfsdk:"timeouts"`

	Items   []readinessItemModel `tfsdk:"items"`
	Score   types.Int64          `tfsdk:"score"`
	Total   types.Int64          `tfsdk:"total"`
	Ready   types.Bool           `tfsdk:"ready"`
	Summary types.String         `tfsdk:"summary"`
}

type readinessItemModel struct {
	ID       types.String `tfsdk:"id"`
	Title    types.String `tfsdk:"title"`
	Status   types.String `tfsdk:"status"`
	Evidence types.String `tfsdk:"evidence"`
	Remedy   types.String `tfsdk:"remedy"`
	Accepted types.Bool   `tfsdk:"accepted"`
}

func newProductionReadinessDataSource() datasource.DataSource {
	return &productionReadinessDataSource{now: time.Now}
}

func (d *productionReadinessDataSource) Metadata(
	_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse,
) {
	resp.TypeName = req.ProviderTypeName + "_production_readiness"
}

// Configure takes the data of the provider's Configure.
func (d *productionReadinessDataSource) Configure(
	_ context.Context, req datasource.ConfigureRequest, resp *datasource.ConfigureResponse,
) {
	d.setSession(req.ProviderData, &resp.Diagnostics)
}

func (d *productionReadinessDataSource) Schema(
	ctx context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse,
) {
	resp.Schema = productionReadinessSchema(ctx)
}

func productionReadinessSchema(ctx context.Context) schema.Schema {
	attributes := querySchema()
	attributes["timeouts"] = queryTimeout(timeouts.AttributesWithOpts(ctx, timeouts.Opts{
		ReadDescription: "Default `30s`. Components that have not answered by then are `unknown`.",
	}))
	attributes["accepted"] = schema.SetAttribute{
		Optional: true, ElementType: types.StringType,
		Validators: []validator.Set{setvalidator.ValueStringsAre(stringvalidator.OneOf(readiness.IDs()...))},
		MarkdownDescription: "IDs of items with which you live: `ready` does not wait for them as long as they are " +
			"`warn`, or `unknown` because machines that answer do not show it, such as an alert in a Prometheus outside of " +
			"the cluster. An item that is `fail`, or `unknown` because something could not be observed, is never accepted. " +
			"Default: none. A change changes nothing but this answer.",
	}
	attributes["items"] = schema.ListNestedAttribute{
		Computed:            true,
		MarkdownDescription: "The items of the review, always in the same order.",
		NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"id":    computedText("Stable identifier of the item, such as `etcd-voters`."),
			"title": computedText("What the item requires."),
			"status": computedText("`pass`; `warn` (configured, but not as recommended); `fail`; `unknown` (it " +
				"could not be read, or machines do not show it; `evidence` has the reason)."),
			"evidence": computedText("What was observed, with the machines that differ."),
			"remedy": computedText("How to fix it, by the provider's attribute if there is one; null if the " +
				"item passes."),
			"accepted": computedFlag("Whether it does not pass and is in the argument `accepted`, with effect."),
		}},
	}
	attributes["score"] = computedNumber("Number of items that pass.")
	attributes["total"] = computedNumber("Number of items.")
	attributes["ready"] = computedFlag("Whether every item is `pass` or accepted.")
	attributes["summary"] = computedText("Summary in one line.")
	return schema.Schema{
		MarkdownDescription: "Reviews whether a control plane is ready for production. The twenty items check " +
			"what is running: the flags, limits and answers of the processes on the machines, their files and " +
			"certificates, who reads their metrics, the metrics of etcd and how it stores Secrets, and the nodes and " +
			"alerts in the API. The review changes nothing. An item that cannot be read is `unknown`, never an error.",
		Attributes: attributes,
	}
}

func (d *productionReadinessDataSource) Read(
	ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse,
) {
	var model productionReadinessModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	timeout, diags := model.Timeouts.Read(ctx, controlPlaneTimeout)
	resp.Diagnostics.Append(diags...)
	ctx, cancel := context.WithTimeout(ctx, queryTime(timeout)) // also of looking for certificates on the machines
	defer cancel()
	at := d.session.queryTarget(ctx, model.PKI, model.Signed, model.Etcd, model.Endpoint, &resp.Diagnostics)
	accepted := stringsOf(ctx, model.Accepted, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx = reported(ctx, "kube_production_readiness", at.registration.Address)
	evidence := unreadEvidence(at.unavailable, d.now())
	if at.unavailable == "" {
		evidence = d.session.reviewControlPlane(ctx, at).evidence(d.now())
	}
	model.fill(readiness.Judge(evidence, accepted...))
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

func (m *productionReadinessModel) fill(findings []readiness.Finding) {
	count, accepted := map[readiness.Status]int{}, 0
	m.Items = []readinessItemModel{}
	for _, f := range findings {
		count[f.Status]++
		if f.Accepted {
			accepted++
		}
		m.Items = append(m.Items, readinessItemModel{
			ID: types.StringValue(f.ID), Title: types.StringValue(f.Title), Status: types.StringValue(string(f.Status)),
			Evidence: lineValue(f.Evidence), Remedy: lineOrNull(f.Remedy),
			Accepted: types.BoolValue(f.Accepted),
		})
	}
	score := readiness.Score(findings)
	m.Score, m.Total = types.Int64Value(int64(score)), types.Int64Value(int64(len(findings)))
	m.Ready = types.BoolValue(readiness.Ready(findings))
	summary := fmt.Sprintf("%d of %d items pass; %d warn, %d fail, %d unknown",
		score, len(findings), count[readiness.Warn], count[readiness.Fail], count[readiness.Unknown])
	if accepted > 0 {
		summary += fmt.Sprintf("; %d accepted", accepted)
	}
	m.Summary = types.StringValue(summary)
}
