package provider

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	etcdrelease "github.com/kubequorum/terraform-provider-kube/internal/etcd/release"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// etcdMemberResource is one etcd member on one machine. The instances of a
// for_each make one cluster although Terraform creates, changes and removes
// them in parallel: package etcd orders them.
type etcdMemberResource struct {
	machineResource[etcdMemberModel, *etcdMemberModel, etcd.Spec, etcd.Status]
}

var (
	_ resource.Resource                   = (*etcdMemberResource)(nil)
	_ resource.ResourceWithConfigure      = (*etcdMemberResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*etcdMemberResource)(nil)
	_ resource.ResourceWithValidateConfig = (*etcdMemberResource)(nil)
	_ resource.ResourceWithImportState    = (*etcdMemberResource)(nil)
	_ resource.ResourceWithIdentity       = (*etcdMemberResource)(nil)
	_ resource.ResourceWithUpgradeState   = (*etcdMemberResource)(nil)
)

type etcdMemberModel struct {
	machineModel

	Name      types.String `tfsdk:"name"`
	Host      types.Object `tfsdk:"host"`
	Peers     types.Map    `tfsdk:"peers"`
	Signed    types.Object `tfsdk:"signed"`
	Version   types.String `tfsdk:"version"`
	ExtraArgs types.Map    `tfsdk:"extra_args"`
	Resources types.Object `tfsdk:"resources"`
	Kept      types.Int64  `tfsdk:"snapshots_kept"`
	Archives  types.Int64  `tfsdk:"archives_kept"`
	Snapshots types.Object `tfsdk:"snapshots"`
	DataDir   types.String `tfsdk:"data_dir"`
	OnDestroy types.String `tfsdk:"on_destroy"`
	Early     types.String `tfsdk:"early_renewal"`

	ClientURL types.String `tfsdk:"client_url"`
	PeerURL   types.String `tfsdk:"peer_url"`

	Learner   types.Bool   `tfsdk:"learner"`
	MachineID types.String `tfsdk:"machine_id"`
	Expiry    types.String `tfsdk:"certificate_expires_at"`
}

func newEtcdMemberResource() resource.Resource {
	r := &etcdMemberResource{}
	r.domain = r
	r.traits = traits{
		kind: "kube_etcd_member", noun: "etcd member", at: path.Root("host").AtName("address"),
		create: time.Hour, update: time.Hour, gone: etcd.ErrGone, adopted: etcd.ErrAdopted,
	}
	return r
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
		if err := etcdrelease.ValidateExtraArgs(model.Version.ValueString(), stringMapOf(ctx, model.ExtraArgs, &resp.Diagnostics)); err != nil {
			addInvalid(&resp.Diagnostics, path.Root("extra_args"), "Invalid extra arguments", err)
		}
	}
}

// ModifyPlan plans what is computed: the URLs follow from the address; what
// Read finds stays as it is unless the machine will be touched.
func (r *etcdMemberResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	plan, state := r.decodePlan(ctx, req, &resp.Diagnostics)
	switch {
	case resp.Diagnostics.HasError():
		return
	case plan == nil:
		r.session.survives().leaves(r.resident(ctx, *state), &resp.Diagnostics)
		return
	}
	plan.derive(ctx, &resp.Diagnostics)
	plan.warnEvenPeers(&resp.Diagnostics)
	warnEnding(plan.bundle, plan.Early, time.Now(), &resp.Diagnostics)
	if state == nil {
		r.session.survives().comes(memberKind, plan.resourceID(), plan.bundle, &resp.Diagnostics)
		state = &etcdMemberModel{}
	} else {
		r.planSurvival(ctx, *plan, *state, &resp.Diagnostics)
		r.planBundle(ctx, plan, state, req, resp)
		if plan.touches(ctx, *state, r.session) {
			plan.planSeen(ctx, *state, r.session)
		} else {
			plan.keepSeen(*state)
		}
	}
	r.judgeVersion(ctx, *plan, *state, &resp.Diagnostics)
	resp.Diagnostics.Append(resp.Plan.Set(ctx, plan)...)
}

func (r *etcdMemberResource) createOn(ctx context.Context, s etcd.Spec) (etcd.Status, error) {
	defer changing(s)()
	return r.session.clusters.Create(ctx, s)
}

func (r *etcdMemberResource) readFrom(ctx context.Context, s etcd.Spec) (etcd.Status, error) {
	return r.session.clusters.Read(ctx, s)
}

func (r *etcdMemberResource) updateOn(ctx context.Context, before, _ etcdMemberModel, s etcd.Spec, diags *diag.Diagnostics) (etcd.Status, error) {
	defer changing(s)()
	s.FormerPeers = r.session.machines(stringMapOf(ctx, before.Peers, diags))
	return r.session.clusters.Update(ctx, s)
}

func (r *etcdMemberResource) deleteFrom(ctx context.Context, s etcd.Spec, superseded func() bool, _ *diag.Diagnostics) error {
	defer changing(s)()
	return r.session.clusters.Delete(ctx, s, etcd.DeleteOptions{Abandon: r.session.abandon, Superseded: superseded})
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
func (r *etcdMemberResource) resident(ctx context.Context, m etcdMemberModel) resident {
	out := resident{kind: memberKind, id: m.resourceID(), bundle: m.bundle, serving: m.ID.ValueString() != "" && !m.Learner.ValueBool()}
	var ignored diag.Diagnostics // decoding the same for the machine reports it
	for name, address := range stringMapOf(ctx, m.Peers, &ignored) {
		out.peers = append(out.peers, resourceID(name, address))
	}
	return out
}

// planSurvival notes whether the plan keeps the member or replaces it.
func (r *etcdMemberResource) planSurvival(ctx context.Context, plan, state etcdMemberModel, diags *diag.Diagnostics) {
	before := r.resident(ctx, state)
	replaced := !plan.Name.Equal(state.Name) || !addressOf(plan.Host).Equal(addressOf(state.Host)) || !plan.DataDir.Equal(state.DataDir) ||
		otherCluster(state.bundle, plan.bundle)
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

// identity is what two descriptions of the same member share.
func (r *etcdMemberResource) identity(s etcd.Spec) string {
	return identity("kube_etcd_member", s.Bundle.ClusterID, s.Name, s.Host.Address(), s.DataDir)
}

// spec is the member as the model describes it.
func (r *etcdMemberResource) spec(ctx context.Context, m etcdMemberModel, diags *diag.Diagnostics) etcd.Spec {
	machine := r.session.machine(addressOf(m.Host).ValueString())
	early, _ := parseDuration(m.Early)
	return etcd.Spec{
		Name:      m.Name.ValueString(),
		Host:      machine,
		Peers:     r.session.machines(stringMapOf(ctx, m.Peers, diags)),
		Bundle:    m.bundle,
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
		APIServers:    r.session.replicas,
		Outage:        r.session.outage(machine, m.bundle),
	}
}

func (m *etcdMemberModel) name() string          { return m.Name.ValueString() }
func (m *etcdMemberModel) label() string         { return fmt.Sprintf("etcd member %q", m.name()) }
func (m *etcdMemberModel) address() types.String { return addressOf(m.Host) }

func (m *etcdMemberModel) signature(context.Context) signature {
	return signature{m.Signed, m.leaves(), addressOf(m.Host)}
}

// derive sets what follows from the arguments.
func (m *etcdMemberModel) derive(context.Context, *diag.Diagnostics) {
	if address := addressOf(m.Host); !address.IsUnknown() {
		m.ClientURL = types.StringValue(membership.ClientURL(address.ValueString()))
		m.PeerURL = types.StringValue(membership.PeerURL(address.ValueString()))
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
func (m *etcdMemberModel) touches(ctx context.Context, before etcdMemberModel, s *session) bool {
	return drifted(before.Drift) || m.rotated(&before.machineModel, pki.EtcdPart) || s.signedAnew(ctx, before.Signed, m.Signed) || changed(
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
func (r *etcdMemberResource) judgeVersion(ctx context.Context, plan, before etcdMemberModel, diags *diag.Diagnostics) {
	if r.session == nil || !allKnown(plan.Name, plan.ClientURL, plan.Version) {
		return
	}
	target := plan.Version.ValueString()
	r.session.versions.plan(plan.ClientURL.ValueString(), plannedMember{cluster: clusterOf(plan.bundle), name: plan.Name.ValueString(), version: target})
	if plan.Version.Equal(before.Version) || !elementsKnown(ctx, plan.Peers) {
		return
	}
	upgrade := !before.Version.IsNull()
	survey, err := r.session.survey(ctx, plan.bundle, stringMapOf(ctx, plan.Peers, diags))
	switch {
	case err == nil:
		refuseVersion(diags, membership.MayUpgrade(survey, target))
	case upgrade && !errors.Is(err, errBegun): // what the plan has allowed stays allowed
		refuseVersion(diags, etcdrelease.ValidateUpgrade(before.Version.ValueString(), target))
	}
	if upgrade {
		r.session.warnUnseen(diags, "etcd "+target, membership.UpgradePathsFrom(survey).Issues, err)
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
	m.Learner = types.BoolValue(s.Learner)
	m.MachineID = types.StringValue(s.MachineID)
	m.ConfigDigest = types.StringValue(s.ConfigDigest)
	m.Expiry = timeString(s.CertificateExpiry)
	m.Drift, m.remedy, m.newID = stringList(s.Drift), s.Remedy, s.NewID
}

// keepSeen plans what was last seen: the machine will not be touched.
func (m *etcdMemberModel) keepSeen(state etcdMemberModel) {
	m.ID, m.Learner, m.MachineID = state.ID, state.Learner, state.MachineID
	m.ConfigDigest, m.Expiry, m.Drift = state.ConfigDigest, state.Expiry, state.Drift
}

// planSeen plans what an update finds: what may change is known after the apply, and
// nothing else.
func (m *etcdMemberModel) planSeen(ctx context.Context, state etcdMemberModel, s *session) {
	m.keepSeen(state)
	m.ConfigDigest, m.Drift = types.StringUnknown(), noDrift()
	if state.newID {
		m.ID = types.StringUnknown()
	}
	if state.Learner.ValueBool() { // it is promoted
		m.Learner = types.BoolUnknown()
	}
	if drifted(state.Drift) || m.rotated(&state.machineModel, pki.EtcdPart) || s.signedAnew(ctx, state.Signed, m.Signed) || !m.Early.Equal(state.Early) {
		m.Expiry = types.StringUnknown()
	}
	m.unknownIfNull()
}

// unknownIfNull: what an import has not looked at yet is known after the apply.
func (m *etcdMemberModel) unknownIfNull() {
	for _, value := range []*types.String{&m.ID, &m.MachineID, &m.Expiry} {
		if value.IsNull() {
			*value = types.StringUnknown()
		}
	}
	if m.Learner.IsNull() {
		m.Learner = types.BoolUnknown()
	}
}

func (m *etcdMemberModel) keepPlanned(plan etcdMemberModel) {
	m.ID, m.Learner, m.MachineID = planned(plan.ID, m.ID), planned(plan.Learner, m.Learner), planned(plan.MachineID, m.MachineID)
	m.ConfigDigest, m.Expiry, m.Drift = planned(plan.ConfigDigest, m.ConfigDigest), planned(plan.Expiry, m.Expiry), planned(plan.Drift, m.Drift)
}
