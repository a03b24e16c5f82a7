package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/disruption"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/bgp"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/kubevip"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// replicaResource is kube-apiserver, kube-controller-manager and kube-scheduler on one machine.
// It enters the endpoint's rotation when it is ready and leaves it before any component stops.
type replicaResource struct {
	machineResource[replicaModel, *replicaModel, controlplane.Spec, controlplane.Status]
}

var (
	_ resource.Resource                   = (*replicaResource)(nil)
	_ resource.ResourceWithConfigure      = (*replicaResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*replicaResource)(nil)
	_ resource.ResourceWithValidateConfig = (*replicaResource)(nil)
	_ resource.ResourceWithImportState    = (*replicaResource)(nil)
	_ resource.ResourceWithIdentity       = (*replicaResource)(nil)
	_ resource.ResourceWithUpgradeState   = (*replicaResource)(nil)
)

func newReplicaResource() resource.Resource {
	r := &replicaResource{}
	r.domain = r
	r.kindConstants = kindConstants{
		kind: "kube_control_plane_replica", noun: "Control-plane replica",
		create: 10 * time.Minute, update: time.Hour, gone: controlplane.ErrGone, adopted: controlplane.ErrAdopted,
	}
	return r
}

func (r *replicaResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = replicaSchema(ctx)
}

// ValidateConfig checks the rules between attributes.
func (r *replicaResource) ValidateConfig(
	ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse,
) {
	var model replicaModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	model.validateCIDRs(ctx, &resp.Diagnostics)
	model.validateHardening(ctx, &resp.Diagnostics)
	model.validateFiles(ctx, &resp.Diagnostics)
	model.validateKonnectivity(ctx, &resp.Diagnostics)
	if urls, known := knownStrings(ctx, model.Etcd, &resp.Diagnostics); known {
		if err := component.ValidateEtcd(urls); err != nil {
			addInvalid(&resp.Diagnostics, path.Root("etcd"), "Invalid etcd URLs", err)
		}
	}
	model.validateArgs(ctx, &resp.Diagnostics)
	model.validateEnvironment(ctx, &resp.Diagnostics)
	model.validateExtraVolumes(ctx, &resp.Diagnostics)
	model.validatePatches(ctx, &resp.Diagnostics)
	model.validateRuntime(ctx, &resp.Diagnostics)
}

// ModifyPlan keeps the observed values unless the machine is changed.
func (r *replicaResource) ModifyPlan(
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
	plan.planFiles(ctx, req.Config, r.session, &resp.Diagnostics)
	warnExpiring(plan.bundle, plan.Signed, plan.EarlyRenewal, time.Now(), &resp.Diagnostics)
	refuseOtherEndpoint(ctx, plan.Endpoint, plan.bundle, &resp.Diagnostics)
	for _, additional := range plan.additional() {
		refuseOtherEndpoint(ctx, additional, plan.bundle, &resp.Diagnostics)
	}
	plan.validateEndpoints(ctx, &resp.Diagnostics)
	plan.validateEndpointPorts(ctx, &resp.Diagnostics)
	plan.warnHooks(ctx, r.session, &resp.Diagnostics)
	if state == nil {
		r.planCreated(ctx, *plan, &resp.Diagnostics)
		state = &replicaModel{}
	} else {
		plan.validateMove(ctx, *state, &resp.Diagnostics)
		plan.planRuntime(*state, &resp.Diagnostics)
		r.planDisruption(ctx, *plan, *state, &resp.Diagnostics)
		r.planBundle(ctx, plan, state, req, resp)
		if plan.affectsMachine(ctx, *state, r.session) {
			plan.planUpdate(ctx, *state, r.session)
		} else {
			plan.keepObserved(*state)
		}
	}
	r.judgeVersion(ctx, *plan, *state, &resp.Diagnostics)
	resp.Diagnostics.Append(resp.Plan.Set(ctx, plan)...)
}

func (r *replicaResource) createOn(ctx context.Context, s controlplane.Spec) (controlplane.Status, error) {
	r.session.leaveAttempted(ctx, &s, false)
	return r.session.replicas.Create(ctx, s)
}

func (r *replicaResource) readFrom(
	ctx context.Context, s controlplane.Spec, diags *diag.Diagnostics,
) (controlplane.Status, error) {
	status, err := r.session.replicas.Read(ctx, s)
	if err == nil && status.RotationErr != nil {
		warnRotationUnknown(diags, fmt.Sprintf("Control-plane replica %q", s.Name), status.RotationErr)
	}
	return status, err
}

func (r *replicaResource) updateOn(
	ctx context.Context, before, after replicaModel, s controlplane.Spec, diags *diag.Diagnostics,
) (controlplane.Status, error) {
	before.bundle = after.bundle // of the same cluster
	from, to := before.registration(ctx, diags), after.registration(ctx, diags)
	if diags.HasError() {
		return controlplane.Status{}, nil
	}
	if err := refuseElection(from, to); err != nil {
		return controlplane.Status{}, err
	}
	if movesRotation(from, to) {
		s.Leaves = registrationText(from)
	}
	if !slices.Equal(from.IDs(), to.IDs()) {
		before := to.At(from)
		s.Before = &controlplane.InRotation{
			Registrar: r.session.registrars.For(before),
			At:        func(s component.Replica) component.Replica { return atEndpoints(s, before) },
		}
	}
	s.Registrar = r.session.registrars.changing(s.Name, from, to, r.session.attemptedAt(ctx, s, from, to))
	return r.session.replicas.Update(ctx, s)
}

func (r *replicaResource) deleteFrom(
	ctx context.Context, s controlplane.Spec, superseded func() bool, diags *diag.Diagnostics,
) error {
	if superseded() {
		return nil
	}
	r.session.leaveAttempted(ctx, &s, true)
	return r.session.replicas.Delete(ctx, s, controlplane.DeleteOptions{
		Abandon:    r.session.abandon,
		Superseded: superseded,
		Creates:    func() []string { return r.session.clusters.Creating(s.Bundle.ClusterID) },
		Left:       func(why string) { diags.AddWarning("Machine not changed", problem.Block(why)+".") },
		Cordoned:   func(why string) { diags.AddWarning("Node accepts no Pods", problem.Block(why)+".") },
	})
}

// replicaKind names replicas in the errors of a plan.
const replicaKind = "control-plane replicas"

// priorObject returns the replica in the state. Its peers are the replicas that the balancers
// list, because a replica names none.
func (r *replicaResource) priorObject(ctx context.Context, m replicaModel) priorObject {
	out := m.inState()
	if out.Serving {
		out.Peers = r.peers(ctx, m)
	}
	return out
}

// inState returns the replica in the state without its peers.
func (m replicaModel) inState() priorObject {
	return priorObject{Kind: replicaKind, ID: m.resourceID(), Bundle: m.bundle, Serving: m.Registered.ValueBool()}
}

// peers returns the replicas that the endpoints of m list; nil if they are not asked or do not answer.
func (r *replicaResource) peers(ctx context.Context, m replicaModel) (ids []string) {
	if !r.session.asks() || !elementsKnown(ctx, m.Endpoint) || !elementsKnown(ctx, m.AdditionalEndpoints) {
		return nil
	}
	var ignored diag.Diagnostics // decoding for the machine reports the same diagnostics
	registrar := r.session.registrars.For(m.registration(ctx, &ignored))
	ctx, cancel := context.WithTimeout(ctx, planTimeout)
	defer cancel()
	others, err := registrar.Serving(ctx)
	if err != nil {
		return nil // the apply checks again
	}
	for name, address := range others {
		if host, _, err := net.SplitHostPort(address); err == nil {
			ids = append(ids, disruption.ID(name, host))
		}
	}
	return ids
}

// planCreated records that the plan creates the replica. If that replaces one that serves, others may serve that are no
// part of the plan.
func (r *replicaResource) planCreated(ctx context.Context, plan replicaModel, diags *diag.Diagnostics) {
	planned, created := r.session.disruption(), plan.inState()
	if planned.Serves(created) {
		created.Peers = r.peers(ctx, plan)
		planned.Observed(created)
		created.Peers = nil
	}
	addRefused(diags, planned.Created(created))
}

// planDisruption records whether the plan keeps the replica or replaces it. What it keeps needs no peers, so a plan
// with -refresh=false that destroys nothing asks nobody.
func (r *replicaResource) planDisruption(ctx context.Context, plan, state replicaModel, diags *diag.Diagnostics) {
	if plan.Name.Equal(state.Name) && addressOf(plan.Host).Equal(addressOf(state.Host)) && !otherCluster(state.bundle,
		plan.bundle) {
		r.session.refuseLeftBehind(state.bundle, "replica "+state.name(), pki.Parts(), diags)
		addRefused(diags, r.session.disruption().Kept(state.inState()))
		return
	}
	by := plan.resourceID()
	if by == "" {
		by = "one with an address that is not known yet"
	}
	addRefused(diags, r.session.disruption().Replaced(r.priorObject(ctx, state), by))
}

// identities are equal for two specs of the same replica. The port is none of them: it changes in place.
func (r *replicaResource) identities(s controlplane.Spec) []string {
	return []string{identity("kube_control_plane_replica", s.Bundle.ClusterID, s.Name, s.Address)}
}

// spec returns the spec that the model describes.
func (r *replicaResource) spec(ctx context.Context, m replicaModel, diags *diag.Diagnostics) controlplane.Spec {
	urls := stringsOf(ctx, m.Etcd, diags)
	registration := m.registration(ctx, diags)
	r.session.registrars.know(registration.All()...)
	early, _ := parseDuration(m.EarlyRenewal)
	return controlplane.Spec{
		Replica: atEndpoints(component.Replica{
			Name:            m.Name.ValueString(),
			Address:         addressOf(m.Host).ValueString(),
			Bundle:          m.bundle,
			Version:         m.Version.ValueString(),
			Port:            int(m.Port.ValueInt64()),
			EtcdURLs:        urls,
			ServiceCIDRs:    stringsOf(ctx, m.ServiceCIDRs, diags),
			PodCIDRs:        stringsOf(ctx, m.PodCIDRs, diags),
			ClusterDomain:   m.ClusterDomain.ValueString(),
			ExtraSANs:       stringsOf(ctx, m.ExtraSANs, diags),
			ExtraArgs:       m.extraArgs(ctx, diags),
			NoAdminConf:     m.noAdminConf(),
			LivenessProbe:   m.Liveness.ValueBool() && !m.isStaticPod(),
			Runtime:         m.runtime(),
			ImageRepository: m.ImageRepository.ValueString(),
			ManageKubelet:   m.ManageKubelet.ValueBool() && m.isStaticPod(),
			InstallKubelet:  installKubeletOf(ctx, m.InstallKubelet, diags),
			ExtraVolumes:    m.extraVolumes(ctx),
			Patches:         m.patches(),
			VerifyKubelets:  m.VerifyKubelets.ValueBool(),
			MetricsAddress:  metricsAddress(m.Metrics),

			TextfileDirectory: textfileDirectory(m.Metrics),
			Audit:             m.audit(ctx),
			Limits:            m.limits(ctx),
			Environment:       m.environment(ctx, diags),
			ConfigFiles:       m.configFiles(ctx),
			Konnectivity:      m.konnectivity(ctx),
			Settings:          m.settings(ctx),
			ListenAll:         m.Listen.ValueString() == listenAll,
			EarlyRenewal:      early,

			SupplementaryGroups: m.groups(ctx),
			Authentication:      m.authentication(ctx),
		}, registration),
		Host:      r.session.machine(addressOf(m.Host).ValueString()),
		Source:    r.session.source,
		Registrar: r.session.registrars.For(registration),
		Store:     r.session.storeAt(urls, m.bundle),
		Rules:     replicaRules(addressOf(m.Host).ValueString(), int(m.Port.ValueInt64()), urls, registration),
	}
}

// atEndpoints returns a replica with everything that follows from its endpoints.
func atEndpoints(s component.Replica, at endpoint.Registration) component.Replica {
	s.EndpointHost, s.EndpointHost6, s.EndpointPort = at.Address, at.Address6, at.Port
	s.AdditionalHosts = at.AdditionalAddresses()
	s.Registration, s.DetectionTime, s.AllAddresses = registrationText(at), at.LongestDetection(), at.OnMachines()
	s.EndpointLease, s.LeaseHolders = kubevip.LeaseOf(at)
	s.HeldAddresses, s.AnnouncedAddresses = kubevip.HeldAt(at), announcedAt(at)
	return s
}

// announcedAt returns the addresses that the machine of a replica announces, with who says whether it does.
func announcedAt(r endpoint.Registration) map[string]string {
	all := kubevip.AnnouncedAt(r)
	maps.Copy(all, bgp.AnnouncedAt(r))
	return all
}

// judgeVersion rejects a version that is not compatible with the other components, including
// the etcd versions that this run installs first. If the running versions cannot be observed,
// the replica's previous version decides. A version that does not change is not checked.
func (r *replicaResource) judgeVersion(ctx context.Context, plan, before replicaModel, diags *diag.Diagnostics) {
	if r.session == nil || !allKnown(plan.Name, plan.Version) {
		return
	}
	target, name := plan.Version.ValueString(), plan.Name.ValueString()
	if plan.Version.Equal(before.Version) {
		r.refuseLoweredEtcd(ctx, plan, diags)
		return
	}
	seen, err := r.runningVersions(ctx, plan)
	if !before.Version.IsNull() {
		r.session.warnUnknownVersions(diags, "Kubernetes "+target, seen.Unknown(), err)
		seen.Replicas = maps.Clone(seen.Replicas) // the map is shared
		if seen.Replicas == nil {
			seen.Replicas = map[string]string{}
		}
		seen.Replicas[name] = cmp.Or(seen.Replicas[name], before.Version.ValueString())
	}
	urls, _ := knownStrings(ctx, plan.Etcd, diags)
	seen.Etcd = r.session.versions.afterPlan(seen.Etcd, urls, clusterOf(plan.bundle))
	refuseVersion(diags, errors.Join(
		release.CheckSkew(target, name, seen), r.session.notWithRotation(before.bundle, plan.bundle)))
	r.session.warnRemoved(diags, seen.Removed, target)
}

// refuseLoweredEtcd rejects a version of etcd that this run lowers, if the replica needs a newer one.
func (r *replicaResource) refuseLoweredEtcd(ctx context.Context, plan replicaModel, diags *diag.Diagnostics) {
	urls, _ := knownStrings(ctx, plan.Etcd, diags)
	for _, etcd := range r.session.versions.lowered(urls, clusterOf(plan.bundle)) {
		refuseVersion(diags, release.ValidateEtcd(plan.Version.ValueString(), etcd))
	}
}

// runningVersions returns the versions that run in the replica's control plane, as far as they can be
// observed.
func (r *replicaResource) runningVersions(ctx context.Context, m replicaModel) (release.Versions, error) {
	if err := r.session.observable(m.bundle); err != nil {
		return release.Versions{}, err
	}
	if !allKnown(addressOf(m.Host)) || !elementsKnown(ctx, m.Endpoint) ||
		!elementsKnown(ctx, m.AdditionalEndpoints) || !elementsKnown(ctx, m.Etcd) ||
		!elementsKnown(ctx, m.Signed) {
		return release.Versions{}, errNoMachines
	}
	var ignored diag.Diagnostics // decoding for the machine reports the same diagnostics
	return r.session.skew(ctx, r.spec(ctx, m, &ignored))
}
