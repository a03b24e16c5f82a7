package provider

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/kubequorum/terraform-provider-kube/internal/disruption"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	etcdrelease "github.com/kubequorum/terraform-provider-kube/internal/etcd/release"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// etcdMemberResource is one etcd member on one machine. The instances of a for_each form one
// cluster although Terraform creates, changes and removes them in parallel: package etcd orders
// the changes.
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

func newEtcdMemberResource() resource.Resource {
	r := &etcdMemberResource{}
	r.domain = r
	r.kindConstants = kindConstants{
		kind: "kube_etcd_member", noun: "etcd member",
		create: time.Hour, update: time.Hour, gone: etcd.ErrGone, adopted: etcd.ErrAdopted, mutable: true,
	}
	return r
}

func (r *etcdMemberResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = etcdMemberSchema(ctx)
}

// ValidateConfig checks the rules between attributes.
func (r *etcdMemberResource) ValidateConfig(
	ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse,
) {
	var model etcdMemberModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	address := addressOf(model.Host)
	if allKnown(model.Name, address, model.Peers) && elementsKnown(ctx, model.Peers) {
		peers := stringMapOf(ctx, model.Peers, &resp.Diagnostics)
		if err := machine.ValidatePeers(model.Name.ValueString(), address.ValueString(), peers); err != nil {
			addInvalid(&resp.Diagnostics, path.Root("peers"), "Invalid peers", err)
		}
	}
	validateLimits(ctx, model.Resources, path.Root("resources"), &resp.Diagnostics)
	model.validateStore(ctx, &resp.Diagnostics)
	model.validateEnvironment(ctx, &resp.Diagnostics)
	validateRestore(model.Restore, model.Snapshots, &resp.Diagnostics)
	model.validateVolume(&resp.Diagnostics)
	model.validateArchived(&resp.Diagnostics)
	model.validateRuntime(&resp.Diagnostics)
	model.validateMetrics(&resp.Diagnostics)
	if elementsKnown(ctx, model.ExtraArgs) {
		if err := etcdrelease.ValidateExtraArgs(model.Version.ValueString(),
			stringMapOf(ctx, model.ExtraArgs, &resp.Diagnostics)); err != nil {
			addInvalid(&resp.Diagnostics, path.Root("extra_args"), "Invalid extra arguments", err)
		}
	}
}

// ModifyPlan plans the computed values. The URLs follow from the address. Observed values stay
// unless the machine is changed.
func (r *etcdMemberResource) ModifyPlan(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) {
	plan, state := r.decodePlan(ctx, req, &resp.Diagnostics)
	switch {
	case resp.Diagnostics.HasError():
		return
	case plan == nil:
		addRefused(&resp.Diagnostics, r.session.disruption().Destroyed(r.priorObject(ctx, *state)))
		return
	}
	plan.derive(ctx, &resp.Diagnostics)
	plan.planHooks(ctx, r.session, &resp.Diagnostics)
	plan.warnEvenPeers(&resp.Diagnostics)
	plan.warnReadableSnapshots(&resp.Diagnostics)
	warnExpiring(plan.bundle, plan.Signed, plan.Early, time.Now(), &resp.Diagnostics)
	if state == nil {
		addRefused(&resp.Diagnostics, r.session.disruption().Created(r.priorObject(ctx, *plan)))
		state = &etcdMemberModel{}
	} else {
		r.planDisruption(ctx, *plan, *state, &resp.Diagnostics)
		r.planBundle(ctx, plan, state, req, resp)
		plan.planVolume(*state, resp)
		plan.planRuntime(*state, &resp.Diagnostics)
		if plan.affectsMachine(ctx, *state, r.session) {
			plan.planUpdate(ctx, *state, r.session)
		} else {
			plan.keepObserved(*state)
		}
	}
	r.judgeVersion(ctx, *plan, *state, &resp.Diagnostics)
	r.planRestore(ctx, *plan, *state, &resp.Diagnostics)
	r.planLost(ctx, *plan, *state, &resp.Diagnostics)
	resp.Diagnostics.Append(resp.Plan.Set(ctx, plan)...)
}

func (r *etcdMemberResource) createOn(ctx context.Context, s etcd.Spec) (etcd.Status, error) {
	defer changing(s)()
	return r.session.clusters.Create(ctx, s)
}

func (r *etcdMemberResource) readFrom(ctx context.Context, s etcd.Spec, _ *diag.Diagnostics) (etcd.Status, error) {
	return r.session.clusters.Read(ctx, s)
}

func (r *etcdMemberResource) updateOn(
	ctx context.Context, before, after etcdMemberModel, s etcd.Spec, diags *diag.Diagnostics,
) (etcd.Status, error) {
	s.LastMachine, s.LastID = before.MachineID.ValueString(), before.ID.ValueString()
	s.NewRestore = after.restoreDue(before)
	if after.moves(before) {
		s.Former = r.session.machine(addressOf(before.Host).ValueString())
		s.FormerOutage = r.session.outage(s.Former, s.Bundle)
	}
	defer changing(s)()
	// The replica may still be at the endpoints before.
	r.session.knowHooks(ctx, before.left(after.hookedEndpoints), s.Bundle, diags)
	s.FormerPeers = r.session.machines(stringMapOf(ctx, before.Peers, diags))
	return r.session.clusters.Update(ctx, s)
}

func (r *etcdMemberResource) deleteFrom(
	ctx context.Context, s etcd.Spec, superseded func() bool, _ *diag.Diagnostics,
) error {
	defer changing(s)()
	return r.session.clusters.Delete(ctx, s, etcd.DeleteOptions{Abandon: r.session.abandon, Superseded: superseded})
}

// memberKind names etcd members in the errors of a plan.
const memberKind = "etcd members"

// priorObject returns the member in the state.
func (r *etcdMemberResource) priorObject(ctx context.Context, m etcdMemberModel) priorObject {
	out := priorObject{Kind: memberKind, ID: m.resourceID(), Bundle: m.bundle, Serving: m.ID.ValueString() != "" &&
		!m.Learner.ValueBool()}
	var ignored diag.Diagnostics // decoding for the machine reports the same diagnostics
	for name, address := range stringMapOf(ctx, m.Peers, &ignored) {
		out.Peers = append(out.Peers, disruption.ID(name, address))
	}
	return out
}

// planDisruption records whether the plan keeps the member or replaces it.
func (r *etcdMemberResource) planDisruption(ctx context.Context, plan, state etcdMemberModel, diags *diag.Diagnostics) {
	before := r.priorObject(ctx, state)
	moved := !addressOf(plan.Host).Equal(addressOf(state.Host)) && !plan.moves(state)
	replaced := !plan.Name.Equal(state.Name) || moved ||
		!plan.DataDir.Equal(state.DataDir) ||
		otherCluster(state.bundle, plan.bundle)
	if !replaced {
		r.session.refuseLeftBehind(state.bundle, "etcd member "+state.name(), []pki.Part{pki.EtcdPart}, diags)
		addRefused(diags, r.session.disruption().Kept(before))
		return
	}
	by := plan.resourceID()
	if by == "" {
		by = "one with an address that is not known yet"
	}
	addRefused(diags, r.session.disruption().Replaced(before, by))
}

// identities are equal for two specs of the same member.
func (r *etcdMemberResource) identities(s etcd.Spec) []string {
	return []string{identity("kube_etcd_member", s.Bundle.ClusterID, s.Name, s.Host.Address(), s.DataDir)}
}

// spec returns the spec that the model describes.
func (r *etcdMemberResource) spec(ctx context.Context, m etcdMemberModel, diags *diag.Diagnostics) etcd.Spec {
	target := r.session.machine(addressOf(m.Host).ValueString())
	r.session.knowHooks(ctx, m.hooked(), m.bundle, diags)
	early, _ := parseDuration(m.Early)
	return etcd.Spec{
		Spec: machine.Spec{
			Name:          m.Name.ValueString(),
			Host:          target,
			Bundle:        m.bundle,
			Version:       m.Version.ValueString(),
			Runtime:       runtimeOf(m.Runtime),
			Image:         m.Image.ValueString(),
			Patch:         m.Patch.ValueString(),
			ExtraArgs:     stringMapOf(ctx, m.ExtraArgs, diags),
			Limits:        limitsOf(ctx, m.Resources),
			Environment:   stringMapOf(ctx, m.Environment, diags),
			Settings:      m.settings(ctx),
			DataDir:       m.DataDir.ValueString(),
			OnDestroy:     machine.OnDestroy(m.OnDestroy.ValueString()),
			Source:        r.session.source,
			SnapshotsKept: int(m.Kept.ValueInt64()),
			ArchivesKept:  int(m.Archives.ValueInt64()),
			Snapshots:     snapshotsOf(m.Snapshots),
			StoreVersion:  r.session.version,
			LivenessProbe: m.Liveness.ValueBool() && runtimeOf(m.Runtime) != machine.StaticPod,

			Volume:            volumeOf(m.Volume),
			ArchivedDataDir:   m.Archived.ValueString(),
			InstallKubelet:    installKubeletOf(ctx, m.Install, diags),
			Restore:           restoreOf(m.Restore),
			MetricsAddress:    metricsAddress(m.Metrics),
			TextfileDirectory: textfileDirectory(m.Metrics),
			EarlyRenewal:      early,
		},
		Peers:      r.session.machines(stringMapOf(ctx, m.Peers, diags)),
		APIServers: r.session.replicas,
		Outage:     r.session.outage(target, m.bundle),
		Abandoned:  r.session.abandon,
		OutageOf: func(h *host.Host) (etcd.Outage, func()) {
			return r.session.openOutage(h, m.bundle)
		},
		StopReplica: func(ctx context.Context, h *host.Host) error {
			return r.session.replicas.Stop(ctx, r.session.stacked(h, m.bundle))
		},
	}
}

// judgeVersion rejects a version that the running cluster does not allow. If the running
// versions cannot be observed, the member's previous version decides. A version that does not
// change is not checked.
func (r *etcdMemberResource) judgeVersion(ctx context.Context, plan, before etcdMemberModel, diags *diag.Diagnostics) {
	if r.session == nil || !allKnown(plan.Name, plan.ClientURL, plan.Version) {
		return
	}
	target := plan.Version.ValueString()
	r.session.versions.plan(plan.ClientURL.ValueString(), plannedMember{
		cluster: clusterOf(plan.bundle),
		name:    plan.Name.ValueString(), version: target, before: before.Version.ValueString(),
	})
	if plan.Version.Equal(before.Version) || !elementsKnown(ctx, plan.Peers) {
		return
	}
	upgrade := !before.Version.IsNull()
	survey, err := r.session.survey(ctx, plan.bundle, stringMapOf(ctx, plan.Peers, diags))
	switch {
	case err == nil && !upgrade:
		refuseVersion(diags, membership.MayJoinAs(survey, target))
	case err == nil:
		refuseVersion(diags, membership.MayChangeVersion(survey, target))
	case upgrade && !errors.Is(err, errChanging): // what the plan has allowed stays allowed
		refuseVersion(diags, etcdrelease.ValidateChange(before.Version.ValueString(), target))
	}
	if upgrade {
		r.session.warnDowngrade(diags, survey, before.Version.ValueString(), target, err)
		r.session.warnUnknownVersions(diags, "etcd "+target, membership.UpgradePathsFrom(survey).Issues, err)
	}
}
