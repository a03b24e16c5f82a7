package provider

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// etcdMemberResource is one etcd member on one machine. The instances of a
// for_each make one cluster although Terraform creates, changes and removes
// them in parallel: package etcd orders them.
type etcdMemberResource struct{ configured }

var (
	_ resource.Resource                   = (*etcdMemberResource)(nil)
	_ resource.ResourceWithConfigure      = (*etcdMemberResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*etcdMemberResource)(nil)
	_ resource.ResourceWithValidateConfig = (*etcdMemberResource)(nil)
	_ resource.ResourceWithImportState    = (*etcdMemberResource)(nil)
	_ resource.ResourceWithIdentity       = (*etcdMemberResource)(nil)
)

type etcdMemberModel struct {
	ID        types.String   `tfsdk:"id"`
	Name      types.String   `tfsdk:"name"`
	Host      types.Object   `tfsdk:"host"`
	Peers     types.Map      `tfsdk:"peers"`
	PKI       types.String   `tfsdk:"pki"`
	Signed    types.Object   `tfsdk:"signed"`
	Version   types.String   `tfsdk:"version"`
	ExtraArgs types.Map      `tfsdk:"extra_args"`
	Resources types.Object   `tfsdk:"resources"`
	Kept      types.Int64    `tfsdk:"snapshots_kept"`
	Archives  types.Int64    `tfsdk:"archives_kept"`
	Snapshots types.Object   `tfsdk:"snapshots"`
	DataDir   types.String   `tfsdk:"data_dir"`
	OnDestroy types.String   `tfsdk:"on_destroy"`
	Timeouts  timeouts.Value `tfsdk:"timeouts"`
	Early     types.String   `tfsdk:"early_renewal"`

	ClientURL types.String `tfsdk:"client_url"`
	PeerURL   types.String `tfsdk:"peer_url"`

	RunningVersion types.String `tfsdk:"running_version"`
	Healthy        types.Bool   `tfsdk:"healthy"`
	Leader         types.Bool   `tfsdk:"leader"`
	Learner        types.Bool   `tfsdk:"learner"`
	DBSize         types.Int64  `tfsdk:"db_size_bytes"`
	Alarms         types.List   `tfsdk:"alarms"`
	Unit           types.String `tfsdk:"unit_state"`
	MachineID      types.String `tfsdk:"machine_id"`
	ConfigDigest   types.String `tfsdk:"config_digest"`
	Expiry         types.String `tfsdk:"certificate_expires_at"`
	Drift          types.List   `tfsdk:"drift"`
}

func newEtcdMemberResource() resource.Resource { return &etcdMemberResource{} }

func (r *etcdMemberResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_etcd_member"
}

func (r *etcdMemberResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = etcdMemberSchema(ctx)
}

// ValidateConfig checks what holds between attributes.
func (r *etcdMemberResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var model etcdMemberModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	address := addressOf(model.Host)
	if allKnown(model.Name, address, model.Peers) && elementsKnown(ctx, model.Peers) {
		peers := stringMapOf(ctx, model.Peers, &resp.Diagnostics)
		if err := etcd.ValidatePeers(model.Name.ValueString(), address.ValueString(), peers); err != nil {
			addInvalid(&resp.Diagnostics, path.Root("peers"), "Invalid peers", err)
		}
	}
	validateLimits(ctx, model.Resources, path.Root("resources"), &resp.Diagnostics)
	if elementsKnown(ctx, model.ExtraArgs) {
		if err := etcd.ValidateExtraArgs(model.Version.ValueString(), stringMapOf(ctx, model.ExtraArgs, &resp.Diagnostics)); err != nil {
			addInvalid(&resp.Diagnostics, path.Root("extra_args"), "Invalid extra arguments", err)
		}
	}
}

// ModifyPlan plans what is computed: the URLs follow from the address; what
// Read finds stays as it is unless the machine will be touched.
func (r *etcdMemberResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	var plan, state etcdMemberModel
	if req.Plan.Raw.IsNull() {
		resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
		r.session.survives().leaves(state.resident(ctx, r.session), &resp.Diagnostics)
		return
	}
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if address := addressOf(plan.Host); !address.IsUnknown() {
		plan.ClientURL = types.StringValue(etcd.ClientURL(address.ValueString()))
		plan.PeerURL = types.StringValue(etcd.PeerURL(address.ValueString()))
	}
	plan.warnEvenPeers(&resp.Diagnostics)
	bundle := r.session.bundle(plan.PKI, &resp.Diagnostics)
	r.session.checkSigned(ctx, bundle, plan.Signed, plan.leaves(), addressOf(plan.Host), time.Now(), &resp.Diagnostics)
	warnEnding(bundle, plan.Early, time.Now(), &resp.Diagnostics)
	if req.State.Raw.IsNull() {
		r.session.survives().comes(memberKind, plan.resourceID(), bundle, &resp.Diagnostics)
	} else {
		resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
		if resp.Diagnostics.HasError() {
			return
		}
		r.planSurvival(ctx, plan, state, &resp.Diagnostics)
		r.session.refuseStranger(ctx, state.PKI, bundle, req.Private, &resp.Diagnostics)
		if r.session.otherCluster(state.PKI, plan.PKI) {
			resp.RequiresReplace = append(resp.RequiresReplace, path.Root("pki"))
		}
		if plan.touches(ctx, state, r.session) {
			plan.forgetSeen()
		} else {
			plan.keepSeen(state)
		}
	}
	r.judgeVersion(ctx, plan, state, bundle, &resp.Diagnostics)
	resp.Diagnostics.Append(resp.Plan.Set(ctx, plan)...)
}

func (r *etcdMemberResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var model etcdMemberModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	timeout, diags := model.Timeouts.Create(ctx, time.Hour)
	resp.Diagnostics.Append(diags...)
	spec := r.spec(ctx, model, &resp.Diagnostics)
	r.session.checkSigned(ctx, spec.Bundle, model.Signed, model.leaves(), addressOf(model.Host), time.Now(), &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := operation(ctx, timeout, "kube_etcd_member", spec.Name)
	defer cancel()
	defer changing(spec)()
	r.session.begin()
	r.session.claims.claim(memberIdentity(spec))
	status, err := r.session.clusters.Create(ctx, spec)
	model.fill(status)
	if err != nil {
		addError(&resp.Diagnostics, path.Root("host").AtName("address"), "etcd member not created", err)
		if !errors.Is(err, etcd.ErrAdopted) { // one that served before must not be tainted: the next apply would remove it
			keepPartial(ctx, resp, model, err)
		}
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
	identify(ctx, resp.Identity, addressOf(model.Host), &resp.Diagnostics)
}

func (r *etcdMemberResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var model etcdMemberModel
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	timeout, diags := model.Timeouts.Read(ctx, time.Minute)
	resp.Diagnostics.Append(diags...)
	identify(ctx, resp.Identity, addressOf(model.Host), &resp.Diagnostics)
	if !r.session.recall(ctx, &model.PKI, req.Private, fmt.Sprintf("etcd member %q", model.Name.ValueString()), &resp.Diagnostics) {
		return
	}
	spec := r.spec(ctx, model, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := operation(ctx, timeout, "kube_etcd_member", spec.Name)
	defer cancel()
	status, err := r.session.clusters.Read(ctx, spec)
	if errors.Is(err, etcd.ErrGone) {
		warnGone(&resp.Diagnostics, err)
		resp.State.RemoveResource(ctx)
		return
	}
	if err != nil {
		keepUnread(&resp.Diagnostics, fmt.Sprintf("etcd member %q", spec.Name), err)
		return
	}
	model.fill(status)
	r.session.survives().exists(model.resident(ctx, r.session))
	if model.Kept.IsNull() { // a state from before there was this attribute
		model.Kept = types.Int64Value(etcd.DefaultSnapshotsKept)
	}
	if model.Archives.IsNull() { // the same
		model.Archives = types.Int64Value(etcd.DefaultArchivesKept)
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

func (r *etcdMemberResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var model, state etcdMemberModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	timeout, diags := model.Timeouts.Update(ctx, time.Hour)
	resp.Diagnostics.Append(diags...)
	spec := r.spec(ctx, model, &resp.Diagnostics)
	r.session.checkSigned(ctx, spec.Bundle, model.Signed, model.leaves(), addressOf(model.Host), time.Now(), &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	if model.touches(ctx, state, r.session) {
		ctx, cancel := operation(ctx, timeout, "kube_etcd_member", spec.Name)
		defer cancel()
		defer changing(spec)()
		r.session.begin()
		spec.FormerPeers = r.session.machines(stringMapOf(ctx, state.Peers, &resp.Diagnostics))
		status, err := r.session.clusters.Update(ctx, spec)
		if err != nil {
			addError(&resp.Diagnostics, path.Root("host").AtName("address"), "etcd member not changed", err)
			return
		}
		model.fill(status)
		warnDrift(&resp.Diagnostics, fmt.Sprintf("etcd member %q", spec.Name), status.Drift, status.Remedy)
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
	identify(ctx, resp.Identity, addressOf(model.Host), &resp.Diagnostics)
}

func (r *etcdMemberResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var model etcdMemberModel
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	timeout, diags := model.Timeouts.Delete(ctx, 10*time.Minute)
	resp.Diagnostics.Append(diags...)
	spec := r.spec(ctx, model, &resp.Diagnostics)
	if resp.Diagnostics.HasError() || withoutBundle(spec.Bundle, "etcd member", &resp.Diagnostics) {
		return
	}
	ctx, cancel := operation(ctx, timeout, "kube_etcd_member", spec.Name)
	defer cancel()
	defer changing(spec)()
	r.session.begin()
	if err := r.session.clusters.Delete(ctx, spec, etcd.DeleteOptions{Abandon: r.session.abandon, Superseded: r.session.claims.superseded(memberIdentity(spec))}); err != nil {
		addError(&resp.Diagnostics, path.Root("host").AtName("address"), "etcd member not deleted", err)
	}
}

// memberKind names etcd members in a plan's refusals.
const memberKind = "etcd members"

// resourceID is the member as survival knows it; "" while it is not known.
func (m etcdMemberModel) resourceID() string {
	address := addressOf(m.Host)
	if !allKnown(m.Name, address) {
		return ""
	}
	return resourceID(m.Name.ValueString(), address.ValueString())
}

// resident is the member as the state has it.
func (m etcdMemberModel) resident(ctx context.Context, s *session) resident {
	out := resident{kind: memberKind, id: m.resourceID(), bundle: s.opened(m.PKI), serving: m.ID.ValueString() != "" && !m.Learner.ValueBool()}
	var ignored diag.Diagnostics // decoding the same for the machine reports it
	for name, address := range stringMapOf(ctx, m.Peers, &ignored) {
		out.peers = append(out.peers, resourceID(name, address))
	}
	return out
}

// planSurvival notes whether the plan keeps the member or replaces it.
func (r *etcdMemberResource) planSurvival(ctx context.Context, plan, state etcdMemberModel, diags *diag.Diagnostics) {
	before := state.resident(ctx, r.session)
	replaced := !plan.Name.Equal(state.Name) || !addressOf(plan.Host).Equal(addressOf(state.Host)) || !plan.DataDir.Equal(state.DataDir) ||
		r.session.otherCluster(state.PKI, plan.PKI)
	if !replaced {
		r.session.survives().stays(before)
		return
	}
	by := plan.resourceID()
	if by == "" {
		by = "one whose place is not known yet"
	}
	r.session.survives().replaced(before, by, diags)
}

// memberIdentity is what two descriptions of the same member share.
func memberIdentity(s etcd.Spec) string {
	return identity("kube_etcd_member", s.Bundle.ClusterID, s.Name, s.Host.Address(), s.DataDir)
}

// spec is the member as the model describes it.
func (r *etcdMemberResource) spec(ctx context.Context, m etcdMemberModel, diags *diag.Diagnostics) etcd.Spec {
	if !r.connected(diags) {
		return etcd.Spec{}
	}
	machine := r.session.machine(addressOf(m.Host).ValueString())
	bundle := r.session.bundleWith(ctx, m.PKI, m.Signed, m.leaves(), addressOf(m.Host), diags)
	early, _ := parseDuration(m.Early)
	return etcd.Spec{
		Name:      m.Name.ValueString(),
		Host:      machine,
		Peers:     r.session.machines(stringMapOf(ctx, m.Peers, diags)),
		Bundle:    bundle,
		Version:   m.Version.ValueString(),
		ExtraArgs: stringMapOf(ctx, m.ExtraArgs, diags),
		Limits:    limitsOf(ctx, m.Resources),
		Settings:  m.settings(ctx),
		DataDir:   m.DataDir.ValueString(),
		OnDestroy: etcd.OnDestroy(m.OnDestroy.ValueString()),
		Source:    r.session.source,

		SnapshotsKept: int(m.Kept.ValueInt64()),
		ArchivesKept:  int(m.Archives.ValueInt64()),
		Snapshots:     snapshotsOf(m.Snapshots),
		EarlyRenewal:  early,
		Clients:       r.session.replicas,
		Outage:        r.session.outage(machine, bundle),
	}
}

// leaves are the member's certificates, nil while it is not known which.
func (m etcdMemberModel) leaves() []pki.Leaf {
	address := addressOf(m.Host)
	if !allKnown(m.Name, address) {
		return nil
	}
	return etcd.Leaves(m.Name.ValueString(), address.ValueString())
}

// touches reports whether going from before to m has to do anything on the
// machine. Peers, timeouts, on_destroy and archives_kept are only read when they
// are needed, and of the bundle a member has the etcd authority only.
func (m etcdMemberModel) touches(ctx context.Context, before etcdMemberModel, s *session) bool {
	return drifted(before.Drift) || s.rotated(before.PKI, m.PKI, pki.EtcdPart) || s.signedAnew(ctx, before.Signed, m.Signed) || changed(
		[2]attr.Value{m.Version, before.Version},
		[2]attr.Value{m.ExtraArgs, before.ExtraArgs},
		[2]attr.Value{m.Resources, before.Resources},
		[2]attr.Value{m.Early, before.Early},
		[2]attr.Value{m.Kept, before.Kept},
		[2]attr.Value{m.Snapshots, before.Snapshots},
	)
}

// judgeVersion refuses a version that the cluster, as it runs, does not allow.
// Where that cannot be seen, the version that the member had decides. A version
// that stays costs nothing.
func (r *etcdMemberResource) judgeVersion(ctx context.Context, plan, before etcdMemberModel, bundle *pki.Bundle, diags *diag.Diagnostics) {
	if r.session == nil || !allKnown(plan.Name, plan.ClientURL, plan.Version) {
		return
	}
	target := plan.Version.ValueString()
	r.session.versions.plan(plan.ClientURL.ValueString(), plannedMember{cluster: clusterOf(bundle), name: plan.Name.ValueString(), version: target})
	if plan.Version.Equal(before.Version) || !elementsKnown(ctx, plan.Peers) {
		return
	}
	upgrade := !before.Version.IsNull()
	survey, err := r.session.survey(ctx, bundle, stringMapOf(ctx, plan.Peers, diags))
	switch {
	case err == nil:
		refuseVersion(diags, etcd.MayUpgrade(survey, target))
	case upgrade && !errors.Is(err, errBegun): // what the plan has allowed stays allowed
		refuseVersion(diags, etcd.ValidateUpgrade(before.Version.ValueString(), target))
	}
	if upgrade {
		r.session.warnUnseen(diags, "etcd "+target, etcd.WaysFrom(survey).Issues, err)
	}
}

// warnEvenPeers warns of an even number of members, which tolerates no more
// failures than one less. It is legal in passing.
func (m etcdMemberModel) warnEvenPeers(diags *diag.Diagnostics) {
	if n := len(m.Peers.Elements()); !m.Peers.IsUnknown() && n%2 == 0 {
		diags.AddAttributeWarning(path.Root("peers"), fmt.Sprintf("An even number of etcd members: %d", n),
			fmt.Sprintf("%d members tolerate the loss of %d, as many as %d do, and every further one can fail too. "+
				"It is fine in passing, while you scale; stay at 1, 3 or 5.", n, (n-1)/2, n-1))
	}
}

// fill takes over what was found.
func (m *etcdMemberModel) fill(s etcd.Status) {
	switch {
	case s.ID != "":
		m.ID = types.StringValue(s.ID)
	case m.ID.IsUnknown(): // a Create that failed before the member had one
		m.ID = types.StringNull()
	}
	m.RunningVersion = said(s.Version)
	m.Healthy = types.BoolValue(s.Healthy)
	m.Leader = types.BoolValue(s.Leader)
	m.Learner = types.BoolValue(s.Learner)
	m.DBSize = types.Int64Value(s.DBSize)
	m.Alarms = stringList(s.Alarms)
	m.Unit = said(s.Unit)
	m.MachineID = types.StringValue(s.MachineID)
	m.ConfigDigest = types.StringValue(s.ConfigDigest)
	m.Expiry = timeString(s.CertificateExpiry)
	m.Drift = stringList(s.Drift)
}

// keepSeen plans what was last seen: the machine will not be touched.
func (m *etcdMemberModel) keepSeen(state etcdMemberModel) {
	m.ID, m.RunningVersion, m.Healthy, m.Leader, m.Learner = state.ID, state.RunningVersion, state.Healthy, state.Leader, state.Learner
	m.DBSize, m.Alarms, m.Unit, m.MachineID = state.DBSize, state.Alarms, state.Unit, state.MachineID
	m.ConfigDigest, m.Expiry, m.Drift = state.ConfigDigest, state.Expiry, state.Drift
}

// forgetSeen plans that all of it is known after the apply.
func (m *etcdMemberModel) forgetSeen() {
	m.ID, m.RunningVersion = types.StringUnknown(), types.StringUnknown()
	m.Healthy, m.Leader, m.Learner = types.BoolUnknown(), types.BoolUnknown(), types.BoolUnknown()
	m.DBSize, m.Alarms = types.Int64Unknown(), types.ListUnknown(types.StringType)
	m.Unit, m.MachineID = types.StringUnknown(), types.StringUnknown()
	m.ConfigDigest, m.Expiry = types.StringUnknown(), types.StringUnknown()
	m.Drift = types.ListUnknown(types.StringType)
}
