package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// replicaResource is kube-apiserver, kube-controller-manager and
// kube-scheduler on one machine. It enters the endpoint's rotation when it is
// ready and leaves it before anything of it stops.
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

type replicaModel struct {
	machineModel

	Name          types.String `tfsdk:"name"`
	Host          types.Object `tfsdk:"host"`
	Endpoint      types.Object `tfsdk:"endpoint"`
	Etcd          types.List   `tfsdk:"etcd"`
	Signed        types.Object `tfsdk:"signed"`
	Version       types.String `tfsdk:"version"`
	Port          types.Int64  `tfsdk:"port"`
	ServiceCIDRs  types.List   `tfsdk:"service_cidrs"`
	PodCIDRs      types.List   `tfsdk:"pod_cidrs"`
	ClusterDomain types.String `tfsdk:"cluster_domain"`
	ExtraSANs     types.Set    `tfsdk:"extra_sans"`
	ExtraArgs     types.Object `tfsdk:"extra_args"`
	EarlyRenewal  types.String `tfsdk:"early_renewal"`

	AdminConf      types.Bool   `tfsdk:"admin_conf"`
	Audit          types.Object `tfsdk:"audit"`
	Authentication types.Object `tfsdk:"authentication"`
	Resources      types.Object `tfsdk:"resources"`
	Groups         types.Set    `tfsdk:"supplementary_groups"`

	Registered types.Bool   `tfsdk:"registered"`
	MachineID  types.String `tfsdk:"machine_id"`
	Expiry     types.String `tfsdk:"certificate_expires_at"`
}

func newReplicaResource() resource.Resource {
	r := &replicaResource{}
	r.domain = r
	r.traits = traits{
		kind: "kube_control_plane_replica", noun: "Control-plane replica", at: path.Root("host").AtName("address"),
		create: 10 * time.Minute, update: 20 * time.Minute, gone: controlplane.ErrGone, adopted: controlplane.ErrAdopted,
	}
	return r
}

func (r *replicaResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = replicaSchema(ctx)
}

// ValidateConfig checks what holds between attributes.
func (r *replicaResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var model replicaModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	model.validateCIDRs(ctx, &resp.Diagnostics)
	model.validateHardening(ctx, &resp.Diagnostics)
	if urls, known := knownStrings(ctx, model.Etcd, &resp.Diagnostics); known {
		if err := component.ValidateEtcdURLs(urls); err != nil {
			addInvalid(&resp.Diagnostics, path.Root("etcd"), "Invalid etcd URLs", err)
		}
	}
	for attribute, name := range extraArgsComponents {
		args, _ := model.ExtraArgs.Attributes()[attribute].(types.Map)
		if !elementsKnown(ctx, args) {
			continue
		}
		if err := component.ValidateExtraArgs(name, model.Version.ValueString(), stringMapOf(ctx, args, &resp.Diagnostics)); err != nil {
			addInvalid(&resp.Diagnostics, path.Root("extra_args").AtName(attribute), "Invalid extra arguments", err)
		}
	}
}

// ModifyPlan keeps what Read has seen unless the machine will be touched.
func (r *replicaResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	plan, state := r.decodePlan(ctx, req, &resp.Diagnostics)
	switch {
	case resp.Diagnostics.HasError():
		return
	case plan == nil:
		r.session.survives().leaves(r.resident(ctx, *state), &resp.Diagnostics)
		return
	}
	plan.derive(ctx, &resp.Diagnostics)
	warnEnding(plan.bundle, plan.EarlyRenewal, time.Now(), &resp.Diagnostics)
	refuseOtherEndpoint(ctx, plan.Endpoint, plan.bundle, &resp.Diagnostics)
	if state == nil {
		r.session.survives().comes(replicaKind, plan.resourceID(), plan.bundle, &resp.Diagnostics)
		state = &replicaModel{}
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

func (r *replicaResource) createOn(ctx context.Context, s controlplane.Spec) (controlplane.Status, error) {
	return r.session.replicas.Create(ctx, s)
}

func (r *replicaResource) readFrom(ctx context.Context, s controlplane.Spec) (controlplane.Status, error) {
	return r.session.replicas.Read(ctx, s)
}

func (r *replicaResource) updateOn(ctx context.Context, _, _ replicaModel, s controlplane.Spec, _ *diag.Diagnostics) (controlplane.Status, error) {
	return r.session.replicas.Update(ctx, s)
}

func (r *replicaResource) deleteFrom(ctx context.Context, s controlplane.Spec, superseded func() bool, diags *diag.Diagnostics) error {
	if superseded() {
		return nil
	}
	return r.session.replicas.Delete(ctx, s, controlplane.DeleteOptions{
		Abandon:    r.session.abandon,
		Superseded: superseded,
		Creates:    func() []string { return r.session.clusters.Creating(s.Bundle.ClusterID) },
		Left:       func(why string) { diags.AddWarning("Machine left as it is", problem.Block(why)+".") },
	})
}

// replicaKind names replicas in a plan's refusals.
const replicaKind = "control-plane replicas"

// resourceID is the replica as survival knows it; "" while it is not known.
func (m replicaModel) resourceID() string {
	address := addressOf(m.Host)
	if !allKnown(m.Name, address) {
		return ""
	}
	return resourceID(m.Name.ValueString(), address.ValueString())
}

// resident is the replica as the state has it. The others are those that the
// balancers list: a replica names none.
func (r *replicaResource) resident(ctx context.Context, m replicaModel) resident {
	out := resident{kind: replicaKind, id: m.resourceID(), bundle: m.bundle, serving: m.Registered.ValueBool()}
	if r.session == nil || r.session.pool == nil || !out.serving || !elementsKnown(ctx, m.Endpoint) {
		return out
	}
	var ignored diag.Diagnostics // decoding the same for the machine reports it
	registrar := r.session.registrars.For(registrationOf(ctx, m.Endpoint, out.bundle, &ignored))
	ctx, cancel := context.WithTimeout(ctx, planLook)
	defer cancel()
	others, err := registrar.Serving(ctx)
	if err != nil {
		return out // the apply looks again
	}
	for name, address := range others {
		if host, _, err := net.SplitHostPort(address); err == nil {
			out.peers = append(out.peers, resourceID(name, host))
		}
	}
	return out
}

// planSurvival notes whether the plan keeps the replica or replaces it.
func (r *replicaResource) planSurvival(ctx context.Context, plan, state replicaModel, diags *diag.Diagnostics) {
	before := r.resident(ctx, state)
	if plan.Name.Equal(state.Name) && addressOf(plan.Host).Equal(addressOf(state.Host)) && !otherCluster(state.bundle, plan.bundle) {
		r.session.survives().stays(before)
		return
	}
	by := plan.resourceID()
	if by == "" {
		by = "one whose place is not known yet"
	}
	r.session.survives().replaced(before, by, diags)
}

// identity is what two descriptions of the same replica share.
func (r *replicaResource) identity(s controlplane.Spec) string {
	return identity("kube_control_plane_replica", s.Bundle.ClusterID, s.Name, s.ServingAddress())
}

// spec is the replica as the model describes it.
func (r *replicaResource) spec(ctx context.Context, m replicaModel, diags *diag.Diagnostics) controlplane.Spec {
	urls := stringsOf(ctx, m.Etcd, diags)
	registration := registrationOf(ctx, m.Endpoint, m.bundle, diags)
	early, _ := parseDuration(m.EarlyRenewal)
	return controlplane.Spec{
		Replica: component.Replica{
			Name:          m.Name.ValueString(),
			Address:       addressOf(m.Host).ValueString(),
			Bundle:        m.bundle,
			Version:       m.Version.ValueString(),
			EndpointHost:  registration.Address,
			EndpointPort:  registration.Port,
			Port:          int(m.Port.ValueInt64()),
			EtcdURLs:      urls,
			ServiceCIDRs:  stringsOf(ctx, m.ServiceCIDRs, diags),
			PodCIDRs:      stringsOf(ctx, m.PodCIDRs, diags),
			ClusterDomain: m.ClusterDomain.ValueString(),
			ExtraSANs:     setOf(ctx, m.ExtraSANs, diags),
			ExtraArgs:     m.extraArgs(ctx, diags),
			NoAdminConf:   m.noAdminConf(),
			Audit:         m.audit(ctx),
			Limits:        m.limits(ctx),
			Settings:      m.settings(ctx),
			Registration:  registrationText(registration),
			EarlyRenewal:  early,

			SupplementaryGroups: m.groups(ctx),
			Authentication:      m.authentication(ctx),
		},
		Host:      r.session.machine(addressOf(m.Host).ValueString()),
		Source:    r.session.source,
		Registrar: r.session.registrars.For(registration),
		Store:     r.session.storeAt(urls, m.bundle),
	}
}

// judgeVersion refuses a version that what runs beside the replica, and what
// this run makes of etcd before, do not allow. What cannot be seen is no reason
// to refuse; then the version that the replica had decides. A version that
// stays costs nothing.
func (r *replicaResource) judgeVersion(ctx context.Context, plan, before replicaModel, diags *diag.Diagnostics) {
	if r.session == nil || !allKnown(plan.Name, plan.Version) || plan.Version.Equal(before.Version) {
		return
	}
	target, name := plan.Version.ValueString(), plan.Name.ValueString()
	seen, err := r.beside(ctx, plan)
	if !before.Version.IsNull() {
		r.session.warnUnseen(diags, "Kubernetes "+target, seen.Unknown(), err)
		seen.Replicas = maps.Clone(seen.Replicas) // it is shared
		if seen.Replicas == nil {
			seen.Replicas = map[string]string{}
		}
		seen.Replicas[name] = cmp.Or(seen.Replicas[name], before.Version.ValueString())
	}
	urls, _ := knownStrings(ctx, plan.Etcd, diags)
	seen.Etcd = r.session.versions.afterwards(seen.Etcd, urls, clusterOf(plan.bundle))
	refuseVersion(diags, errors.Join(release.CheckSkew(target, name, seen), notWithRotation(before.bundle, plan.bundle)))
	r.session.warnRemoved(diags, seen.Removed, target)
}

// notWithRotation refuses a stage of a rotation in the same apply: a version can be
// taken back where it does not come up, a stage on which others may count cannot.
func notWithRotation(before, after *pki.Bundle) error {
	if before == nil || after == nil || maps.Equal(before.Generations(), after.Generations()) {
		return nil
	}
	return errors.New("version and rotation of the PKI bundle change together: a version can be taken back where it does not come up, a stage of a rotation cannot; apply one of them first, then the other")
}

// beside is what runs in the replica's control plane, as far as it can be told.
func (r *replicaResource) beside(ctx context.Context, m replicaModel) (release.Versions, error) {
	if err := r.session.askable(m.bundle); err != nil {
		return release.Versions{}, err
	}
	if !allKnown(addressOf(m.Host)) || !elementsKnown(ctx, m.Endpoint) || !elementsKnown(ctx, m.Etcd) || !elementsKnown(ctx, m.Signed) {
		return release.Versions{}, errNoPlace
	}
	var ignored diag.Diagnostics // decoding the same for the machine reports it
	return r.session.skew(ctx, r.spec(ctx, m, &ignored))
}

func (m *replicaModel) name() string          { return m.Name.ValueString() }
func (m *replicaModel) label() string         { return fmt.Sprintf("Control-plane replica %q", m.name()) }
func (m *replicaModel) address() types.String { return addressOf(m.Host) }

func (m *replicaModel) signature(ctx context.Context) signature {
	return signature{m.Signed, m.leaves(ctx), addressOf(m.Host)}
}

// derive sets what follows from the arguments.
func (m *replicaModel) derive(context.Context, *diag.Diagnostics) { m.ID = m.Name }

// leaves are the replica's certificates, nil while it is not known which.
func (m replicaModel) leaves(ctx context.Context) []pki.Leaf {
	var ignored diag.Diagnostics // decoding the same for the machine reports it
	address := addressOf(m.Host)
	endpoint, _ := m.Endpoint.Attributes()["address"].(types.String)
	if !allKnown(m.Name, address, endpoint, m.ClusterDomain, m.AdminConf) || !elementsKnown(ctx, m.ServiceCIDRs) || !elementsKnown(ctx, m.ExtraSANs) {
		return nil
	}
	names := requestedReplicaModel{
		Name: m.Name, Address: address, Endpoint: endpoint,
		ServiceCIDRs: m.ServiceCIDRs, ClusterDomain: m.ClusterDomain, ExtraSANs: m.ExtraSANs,
	}.names(ctx, &ignored)
	if m.noAdminConf() {
		return component.LeavesWithoutAdmin(names)
	}
	return component.Leaves(names)
}

// noAdminConf reports whether the machine is to have no administrators' kubeconfig.
func (m replicaModel) noAdminConf() bool {
	return !m.AdminConf.IsNull() && !m.AdminConf.IsUnknown() && !m.AdminConf.ValueBool()
}

// touches reports whether going from before to m has to do anything on the
// machine: whatever configures a component, where the replica registers, and
// what Read found different.
func (m *replicaModel) touches(ctx context.Context, before replicaModel, s *session) bool {
	return drifted(before.Drift) || m.rotated(&before.machineModel, pki.Parts()...) || s.signedAnew(ctx, before.Signed, m.Signed) ||
		m.AdminConf.IsUnknown() || m.noAdminConf() != before.noAdminConf() || changed(
		[2]attr.Value{m.Endpoint, before.Endpoint},
		[2]attr.Value{m.Etcd, before.Etcd},
		[2]attr.Value{m.Version, before.Version},
		[2]attr.Value{m.Port, before.Port},
		[2]attr.Value{m.ServiceCIDRs, before.ServiceCIDRs},
		[2]attr.Value{m.PodCIDRs, before.PodCIDRs},
		[2]attr.Value{m.ClusterDomain, before.ClusterDomain},
		[2]attr.Value{m.ExtraSANs, before.ExtraSANs},
		[2]attr.Value{m.ExtraArgs, before.ExtraArgs},
		[2]attr.Value{m.Audit, before.Audit},
		[2]attr.Value{m.Authentication, before.Authentication},
		[2]attr.Value{m.Resources, before.Resources},
		[2]attr.Value{m.Groups, before.Groups},
		[2]attr.Value{m.EarlyRenewal, before.EarlyRenewal},
	)
}

func (m replicaModel) validateCIDRs(ctx context.Context, diags *diag.Diagnostics) {
	services, known := knownStrings(ctx, m.ServiceCIDRs, diags)
	if !known {
		return
	}
	if services == nil {
		services = []string{defaultServiceCIDR}
	}
	pods, known := knownStrings(ctx, m.PodCIDRs, diags)
	if !known {
		return
	}
	if err := component.ValidateCIDRs(services, pods); err != nil {
		addInvalid(diags, path.Root("service_cidrs"), "Invalid CIDRs", err)
	}
}

// extraArgsComponents names the component of each attribute of extra_args.
var extraArgsComponents = map[string]string{
	"apiserver":          "kube-apiserver",
	"controller_manager": "kube-controller-manager",
	"scheduler":          "kube-scheduler",
}

func (m replicaModel) extraArgs(ctx context.Context, diags *diag.Diagnostics) map[string]map[string]string {
	out := map[string]map[string]string{}
	for attribute, name := range extraArgsComponents {
		if args, ok := m.ExtraArgs.Attributes()[attribute].(types.Map); ok {
			out[name] = stringMapOf(ctx, args, diags)
		}
	}
	return out
}

// fill takes over what was found.
func (m *replicaModel) fill(s controlplane.Status) {
	m.Registered = types.BoolValue(s.Registered)
	m.MachineID = types.StringValue(s.MachineID)
	m.ConfigDigest = types.StringValue(s.ConfigDigest)
	m.Expiry = timeString(s.CertificateExpiry)
	m.Drift = stringList(s.Drift)
}

// keepSeen plans what was last seen: the machine will not be touched.
func (m *replicaModel) keepSeen(state replicaModel) {
	m.Registered, m.MachineID = state.Registered, state.MachineID
	m.ConfigDigest, m.Expiry, m.Drift = state.ConfigDigest, state.Expiry, state.Drift
}

// planSeen plans what an update finds: what may change is known after the apply, and
// nothing else.
func (m *replicaModel) planSeen(ctx context.Context, state replicaModel, s *session) {
	m.keepSeen(state)
	m.ConfigDigest, m.Drift = types.StringUnknown(), noDrift()
	if !state.Registered.ValueBool() {
		m.Registered = types.BoolUnknown()
	}
	if m.MachineID.IsNull() { // an import has not looked at it yet
		m.MachineID = types.StringUnknown()
	}
	if m.Expiry.IsNull() || m.certified(ctx, state, s) {
		m.Expiry = types.StringUnknown()
	}
}

// certified reports whether going from before to m may issue certificates.
func (m *replicaModel) certified(ctx context.Context, before replicaModel, s *session) bool {
	return drifted(before.Drift) || m.rotated(&before.machineModel, pki.Parts()...) || s.signedAnew(ctx, before.Signed, m.Signed) || changed(
		[2]attr.Value{m.AdminConf, before.AdminConf},
		[2]attr.Value{m.Endpoint, before.Endpoint},
		[2]attr.Value{m.ServiceCIDRs, before.ServiceCIDRs},
		[2]attr.Value{m.ClusterDomain, before.ClusterDomain},
		[2]attr.Value{m.ExtraSANs, before.ExtraSANs},
		[2]attr.Value{m.EarlyRenewal, before.EarlyRenewal},
	)
}

func (m *replicaModel) keepPlanned(plan replicaModel) {
	m.Registered, m.MachineID, m.Expiry = planned(plan.Registered, m.Registered), planned(plan.MachineID, m.MachineID), planned(plan.Expiry, m.Expiry)
	m.ConfigDigest, m.Drift = planned(plan.ConfigDigest, m.ConfigDigest), planned(plan.Drift, m.Drift)
}

// knownStrings is a list's strings, and whether all of them are known. Null is nil.
func knownStrings(ctx context.Context, list basetypes.ListValue, diags *diag.Diagnostics) ([]string, bool) {
	if list.IsUnknown() {
		return nil, false
	}
	for _, element := range list.Elements() {
		if element.IsUnknown() {
			return nil, false
		}
	}
	return stringsOf(ctx, list, diags), true
}
