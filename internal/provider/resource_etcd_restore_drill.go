package provider

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
)

// drillResource runs a restore drill when it is created, when its triggers change, and when the last one is
// older than it may be. Its state is the result of the last drill that succeeded.
type drillResource struct {
	configured
	now func() time.Time
}

var (
	_ resource.Resource                   = (*drillResource)(nil)
	_ resource.ResourceWithConfigure      = (*drillResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*drillResource)(nil)
	_ resource.ResourceWithValidateConfig = (*drillResource)(nil)
)

type drillResourceModel struct {
	drillModel
	Triggers types.Map    `tfsdk:"triggers"`
	Every    types.String `tfsdk:"every"`
	drillResultModel
}

// drillResultModel is the result of a drill.
type drillResultModel struct {
	ID          types.String  `tfsdk:"id"`
	RanOn       types.String  `tfsdk:"ran_on"`
	CompletedAt types.String  `tfsdk:"completed_at"`
	RTO         types.Float64 `tfsdk:"rto_seconds"`
	RPO         types.Int64   `tfsdk:"rpo_seconds"`
	Steps       types.Map     `tfsdk:"steps"`
	Source      types.String  `tfsdk:"source"`
	Name        types.String  `tfsdk:"snapshot_name"`
	SavedAt     types.String  `tfsdk:"saved_at"`
	Size        types.Int64   `tfsdk:"size_bytes"`
	Revision    types.Int64   `tfsdk:"revision"`
	SHA256      types.String  `tfsdk:"sha256"`
	Objects     types.Map     `tfsdk:"objects"`
	Compared    types.Bool    `tfsdk:"compared"`
	Tokens      types.Bool    `tfsdk:"tokens_verified"`
	Encrypted   types.Bool    `tfsdk:"encrypted"`
}

func newDrillResource() resource.Resource { return &drillResource{now: time.Now} }

func (r *drillResource) Metadata(_ context.Context, _ resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = drillKind
}

func (r *drillResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	const repeats = " A change runs a drill."
	text := func(description string, checks ...validator.String) schema.Attribute {
		return schema.StringAttribute{Optional: true, Validators: checks, MarkdownDescription: description + repeats}
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "A restore drill: proves that the cluster can be restored, and measures how long it takes " +
			"(RTO) and how old the snapshot is (RPO). " + drillAbout + ", and the next apply runs it again. A drill runs when " +
			"the resource is created, when `triggers` or the source changes, and when the last one is older than `every`. The " +
			"state has the result of the last drill that succeeded. Destroying the resource changes nothing on the machine. " +
			"With Terraform 1.14, the action of the same name runs one drill on request.",
		Attributes: map[string]schema.Attribute{
			"pki": schema.StringAttribute{Required: true, Sensitive: true, MarkdownDescription: "The `bundle` of the " +
				"cluster's `kube_pki_bundle`. A change runs no drill."},
			"peers": schema.MapAttribute{
				Required: true, ElementType: types.StringType, MarkdownDescription: "Addresses of the machines of all etcd " +
					"members, by member name, as in `peers` of `kube_etcd_member`. A change runs no drill.",
			},
			"member":           text(drillMember, checked("member name", machine.ValidateName)),
			"snapshot":         text(drillSnapshot, checked("snapshot", validateMachinePath)),
			"fetch":            text(drillFetch, checked("fetch command", validateFetch)),
			"environment_file": text(drillEnvironment, checked("environment file", validateMachinePath)),
			"identity_file":    text(drillIdentity, checked("identity file", validateIdentityFile)),
			"triggers": schema.MapAttribute{
				Optional: true, ElementType: types.StringType, MarkdownDescription: "Any values. Default: none." + repeats,
			},
			"every": schema.StringAttribute{
				Optional: true, Validators: []validator.String{durationValidator()},
				MarkdownDescription: "How old the last drill may become, such as `720h`: a plan whose refresh sees that it is " +
					"older runs one. Default: none, so that only `triggers` and the source do. A change runs no drill; the next " +
					"plan does if one is due by the new value.",
			},
			"id":           computedResult("`MEMBER/TIME` of the drill."),
			"ran_on":       computedResult("Name of the member on whose machine it ran."),
			"completed_at": computedResult("When it ended, RFC 3339."),
			"rto_seconds": schema.Float64Attribute{Computed: true, MarkdownDescription: "Time from its start until the API " +
				"server was ready, in seconds: the sum of `steps`. It is no bound of what a restore takes: the servers of a " +
				"drill have a low priority, and their etcd does not flush its writes to the disk. A restore also stops API " +
				"servers, archives the data of the members, and lets the other members join."},
			"rpo_seconds": schema.Int64Attribute{Computed: true, MarkdownDescription: "Age of the snapshot when the drill " +
				"started, in seconds; null if it is not known."},
			"steps": schema.MapAttribute{Computed: true, ElementType: types.Float64Type, MarkdownDescription: "Seconds of " +
				"`fetch`, `verify`, `restore`, `etcd` and `apiserver`."},
			"source": computedResult("`bucket`, `fetch`, `snapshot`, or `newest` for the newest one on the machine."),
			"snapshot_name": computedResult("Name of the snapshot; null if the source does not say it. The " +
				"commands in `fetch` do not."),
			"saved_at": computedResult("When the snapshot was saved, RFC 3339: by its name, otherwise by the last " +
				"heartbeat (Lease) that it contains, or the time of the file; null if none of them is known."),
			"size_bytes": schema.Int64Attribute{Computed: true, MarkdownDescription: "Size of the snapshot in bytes."},
			"revision":   schema.Int64Attribute{Computed: true, MarkdownDescription: "Revision up to which it has the data."},
			"sha256":     computedResult("SHA-256 digest of its database, which etcd has appended to it."),
			"objects": schema.MapAttribute{Computed: true, ElementType: types.Int64Type, MarkdownDescription: "Number of " +
				"objects in the snapshot by resource, such as `secrets` and `deployments.apps`, without events, and without " +
				"custom resources that only a conversion webhook of the cluster can read, which a warning names."},
			"compared": schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether `objects` was compared with the " +
				"live cluster: its numbers differ by no more than the changes that were written since. `false` if the " +
				"cluster was restored since, or no live API server answered on the machine."},
			"tokens_verified": schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether the restored API server " +
				"accepted a token that the live one issued to a service account of the snapshot. `false` if there is none, " +
				"or nothing was compared."},
			"encrypted": schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether there are Secrets, and all " +
				"that were looked at are encrypted in the snapshot, and the keys in `pki` decrypt them."},
		},
	}
}

// computedResult describes a text of the result.
func computedResult(description string) schema.Attribute {
	return schema.StringAttribute{Computed: true, MarkdownDescription: description}
}

func (r *drillResource) Configure(
	_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse,
) {
	r.setSession(req.ProviderData, &resp.Diagnostics)
}

func (r *drillResource) ValidateConfig(
	ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse,
) {
	var m drillResourceModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	if !resp.Diagnostics.HasError() {
		m.validateDrill(&resp.Diagnostics)
	}
}

// ModifyPlan plans the last result unless a drill is to run.
func (r *drillResource) ModifyPlan(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) {
	if req.Plan.Raw.IsNull() || req.State.Raw.IsNull() {
		return
	}
	var plan, state drillResourceModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	due := plan.Every.Equal(state.Every) && isSet(ctx, req.Private, drillDueKey, &resp.Diagnostics)
	if due {
		resp.Diagnostics.AddWarning("A restore drill is due", fmt.Sprintf("The last one was completed at %s, more than %s "+
			"ago. The apply runs one on the machine of a member.", state.CompletedAt.ValueString(), plan.Every.ValueString()))
	}
	plan.drillResultModel = state.drillResultModel
	if due || plan.asksAgain(state) {
		plan.drillResultModel = unknownResult()
	}
	resp.Diagnostics.Append(resp.Plan.Set(ctx, plan)...)
}

// asksAgain reports whether a changed argument asks for another drill.
func (m drillResourceModel) asksAgain(before drillResourceModel) bool {
	return !m.Triggers.Equal(before.Triggers) || !m.Member.Equal(before.Member) || !m.Snapshot.Equal(before.Snapshot) ||
		!m.Fetch.Equal(before.Fetch) || !m.EnvironmentFile.Equal(before.EnvironmentFile) ||
		!m.IdentityFile.Equal(before.IdentityFile)
}

// drillDueKey is the private-state key that records that the refresh of the plan has seen that a drill is due.
// Terraform plans again before it applies, which may be hours later, and what is known in the plan must stay known.
const drillDueKey = "drill_due"

// drillDue reports whether the last drill is too old.
func drillDue(state drillResourceModel, now time.Time) bool {
	limit, err := parseDuration(state.Every)
	if err != nil || limit == 0 {
		return false
	}
	last, err := time.Parse(time.RFC3339, state.CompletedAt.ValueString())
	return err == nil && now.Sub(last) >= limit
}

// Create runs a drill. One that fails leaves nothing in the state, so that the next apply runs it again.
func (r *drillResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var model drillResourceModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() || !r.connected(&resp.Diagnostics) {
		return
	}
	model.drill(ctx, r.session, &resp.Diagnostics)
	if !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
	}
}

// Read records whether a drill is due. The result of a drill does not change, and kube_control_plane reads what the
// machines have recorded.
func (r *drillResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state drillResourceModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if !resp.Diagnostics.HasError() {
		keepSet(ctx, req, resp, drillDueKey, drillDue(state, r.now()))
	}
}

// Update runs a drill if its result is to become known. One that fails leaves the state as it was.
func (r *drillResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var model drillResourceModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if model.CompletedAt.IsUnknown() {
		if !r.connected(&resp.Diagnostics) {
			return
		}
		model.drill(ctx, r.session, &resp.Diagnostics)
	}
	if !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
		resp.Diagnostics.Append(resp.Private.SetKey(ctx, drillDueKey, []byte("false"))...)
	}
}

// Delete forgets the result. The record on the machine stays until its member is destroyed.
func (r *drillResource) Delete(context.Context, resource.DeleteRequest, *resource.DeleteResponse) {}
