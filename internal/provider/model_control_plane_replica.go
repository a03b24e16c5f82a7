package provider

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/disruption"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/kubevip"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

type replicaModel struct {
	machineModel

	Name                types.String `tfsdk:"name"`
	Host                types.Object `tfsdk:"host"`
	Endpoint            types.Object `tfsdk:"endpoint"`
	AdditionalEndpoints types.List   `tfsdk:"additional_endpoints"`
	Etcd                types.Set    `tfsdk:"etcd"`
	Signed              types.Object `tfsdk:"signed"`
	Version             types.String `tfsdk:"version"`
	Port                types.Int64  `tfsdk:"port"`
	Listen              types.String `tfsdk:"listen"`
	ServiceCIDRs        types.List   `tfsdk:"service_cidrs"`
	PodCIDRs            types.List   `tfsdk:"pod_cidrs"`
	ClusterDomain       types.String `tfsdk:"cluster_domain"`
	ExtraSANs           types.Set    `tfsdk:"extra_sans"`
	ExtraArgs           types.Object `tfsdk:"extra_args"`
	RepeatedArgs        types.Object `tfsdk:"repeated_args"`
	Environment         types.Object `tfsdk:"environment"`
	EarlyRenewal        types.String `tfsdk:"early_renewal"`
	Runtime             types.String `tfsdk:"runtime"`
	ImageRepository     types.String `tfsdk:"image_repository"`
	ManageKubelet       types.Bool   `tfsdk:"manage_kubelet"`
	InstallKubelet      types.Object `tfsdk:"install_kubelet"`
	ExtraVolumes        types.Object `tfsdk:"extra_volumes"`
	Patches             types.Object `tfsdk:"patches"`

	Files       types.Map `tfsdk:"files"`
	FileDigests types.Map `tfsdk:"file_digests"`

	AdminConf      types.Bool   `tfsdk:"admin_conf"`
	Liveness       types.Bool   `tfsdk:"liveness_probe"`
	VerifyKubelets types.Bool   `tfsdk:"verify_kubelets"`
	Maintenance    types.Object `tfsdk:"maintenance"`
	Metrics        types.Object `tfsdk:"metrics"`
	Audit          types.Object `tfsdk:"audit"`
	Authentication types.Object `tfsdk:"authentication"`
	Resources      types.Object `tfsdk:"resources"`
	Groups         types.Set    `tfsdk:"supplementary_groups"`
	Konnectivity   types.Object `tfsdk:"konnectivity"`

	Registered types.Bool   `tfsdk:"registered"`
	MachineID  types.String `tfsdk:"machine_id"`
	Expiry     types.String `tfsdk:"certificate_expires_at"`

	contents map[string]string // of the files, by name; only while they are applied
}

// resourceID returns the replica's ID in disruption, or "" while it is unknown.
func (m replicaModel) resourceID() string {
	address := addressOf(m.Host)
	if !allKnown(m.Name, address) {
		return ""
	}
	return disruption.ID(m.Name.ValueString(), address.ValueString())
}

// notWithRotation rejects a version change and a stage of a rotation in the same apply. A
// version that does not start can be rolled back. A stage cannot, because other components may
// already depend on it. after is nil while it is not known: each stage that is planned makes it unknown.
func (s *session) notWithRotation(before, after *pki.Bundle) error {
	switch {
	case before == nil:
		return nil
	case after == nil && !s.rotationEnds.turns(before.ClusterID):
		return nil
	case after != nil && maps.Equal(before.Generations(), after.Generations()):
		return nil
	}
	return errors.New("version and rotation of the PKI bundle change together: a failed version change can be " +
		"rolled back, a rotation stage cannot; apply one of them first, then the other")
}

func (m *replicaModel) name() string          { return m.Name.ValueString() }
func (m *replicaModel) at() path.Path         { return path.Root("host").AtName("address") }
func (m *replicaModel) label() string         { return fmt.Sprintf("Control-plane replica %q", m.name()) }
func (m *replicaModel) address() types.String { return addressOf(m.Host) }

func (m *replicaModel) signature(ctx context.Context) signature {
	return signature{m.Signed, m.leaves(ctx), addressOf(m.Host)}
}

// derive sets the attributes that follow from the arguments.
func (m *replicaModel) derive(context.Context, *diag.Diagnostics) { m.ID = m.Name }

// leaves returns the replica's certificates, or nil while they are unknown.
func (m replicaModel) leaves(ctx context.Context) []pki.Leaf {
	var ignored diag.Diagnostics // decoding for the machine reports the same diagnostics
	address := addressOf(m.Host)
	at, _ := m.Endpoint.Attributes()["address"].(types.String)
	endpoint6, _ := m.Endpoint.Attributes()["address6"].(types.String)
	if endpoint6.IsUnknown() || !elementsKnown(ctx, m.Endpoint) || !elementsKnown(ctx, m.AdditionalEndpoints) ||
		!allKnown(m.Name, address, at, m.ClusterDomain, m.AdminConf) ||
		!elementsKnown(ctx, m.ServiceCIDRs) || !elementsKnown(ctx, m.ExtraSANs) {
		return nil
	}
	registration := m.registration(ctx, &ignored)
	names := requestedReplicaModel{
		Name: m.Name, Address: address, Endpoint: at, Endpoint6: endpoint6,
		Additional:   stringsOrNull(registration.AdditionalAddresses()),
		ServiceCIDRs: m.ServiceCIDRs, ClusterDomain: m.ClusterDomain, ExtraSANs: m.ExtraSANs,
	}.names(ctx, &ignored)
	_, holders := kubevip.LeaseOf(registration)
	if m.noAdminConf() {
		return withLease(component.LeavesWithoutAdmin(names), m.name(), holders)
	}
	return withLease(component.Leaves(names), m.name(), holders)
}

// noAdminConf reports whether the machine gets no administrators' kubeconfig.
func (m replicaModel) noAdminConf() bool {
	return !m.AdminConf.IsNull() && !m.AdminConf.IsUnknown() && !m.AdminConf.ValueBool()
}

// affectsMachine reports whether going from before to m requires a change on the machine: a setting of
// a component, the registration of the replica, or drift.
func (m *replicaModel) affectsMachine(ctx context.Context, before replicaModel, s *session) bool {
	return drifted(before.Drift) || m.renamed(&before.machineModel) || m.rotated(&before.machineModel, pki.Parts()...) ||
		s.signedChanged(ctx, before.Signed, m.Signed) || m.runtime() != before.runtime() ||
		m.AdminConf.IsUnknown() || m.noAdminConf() != before.noAdminConf() || changed(
		[2]attr.Value{m.Liveness, before.Liveness},
		[2]attr.Value{m.VerifyKubelets, before.VerifyKubelets},
		[2]attr.Value{m.ManageKubelet, before.ManageKubelet},
		[2]attr.Value{m.Metrics, before.Metrics},
		[2]attr.Value{m.Endpoint, before.Endpoint},
		[2]attr.Value{m.AdditionalEndpoints, before.AdditionalEndpoints},
		[2]attr.Value{m.Etcd, before.Etcd},
		[2]attr.Value{m.Version, before.Version},
		[2]attr.Value{m.Port, before.Port},
		[2]attr.Value{m.Listen, before.Listen},
		[2]attr.Value{m.ServiceCIDRs, before.ServiceCIDRs},
		[2]attr.Value{m.PodCIDRs, before.PodCIDRs},
		[2]attr.Value{m.ClusterDomain, before.ClusterDomain},
		[2]attr.Value{m.ExtraSANs, before.ExtraSANs},
		[2]attr.Value{m.ExtraArgs, before.ExtraArgs},
		[2]attr.Value{m.Files, before.Files},
		[2]attr.Value{m.FileDigests, before.FileDigests},
		[2]attr.Value{m.RepeatedArgs, before.RepeatedArgs},
		[2]attr.Value{m.Environment, before.Environment},
		[2]attr.Value{m.Audit, before.Audit},
		[2]attr.Value{m.Authentication, before.Authentication},
		[2]attr.Value{m.Resources, before.Resources},
		[2]attr.Value{m.Groups, before.Groups},
		[2]attr.Value{m.Konnectivity, before.Konnectivity},
		[2]attr.Value{m.ImageRepository, before.ImageRepository},
		[2]attr.Value{m.ExtraVolumes, before.ExtraVolumes},
		[2]attr.Value{m.Patches, before.Patches},
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
		return
	}
	address := addressOf(m.Host)
	if address.IsUnknown() || !elementsKnown(ctx, m.ExtraArgs) {
		return
	}
	if err := component.ValidateNetwork(address.ValueString(), services, pods, m.extraArgs(ctx, diags)); err != nil {
		addInvalid(diags, path.Root("service_cidrs"), "Invalid CIDRs", err)
	}
}

// fill sets the attributes from the observed status.
func (m *replicaModel) fill(s controlplane.Status) {
	if s.RotationErr == nil {
		m.Registered = types.BoolValue(s.Registered)
	}
	m.MachineID = types.StringValue(s.MachineID)
	m.ConfigDigest = types.StringValue(s.ConfigDigest)
	m.Expiry = timeString(s.CertificateExpiry)
	m.Drift = stringList(s.Drift)
}

// keepObserved plans the last observed values, because the machine is not changed.
func (m *replicaModel) keepObserved(state replicaModel) {
	m.Registered, m.MachineID = state.Registered, state.MachineID
	m.ConfigDigest, m.Expiry, m.Drift = state.ConfigDigest, state.Expiry, state.Drift
}

// planUpdate plans the values that an update results in. Only values that may change become
// known after the apply.
func (m *replicaModel) planUpdate(ctx context.Context, state replicaModel, s *session) {
	m.keepObserved(state)
	m.ConfigDigest, m.Drift = types.StringUnknown(), noDrift()
	if !state.Registered.ValueBool() {
		m.Registered = types.BoolUnknown()
	}
	if m.MachineID.IsNull() { // imported and not observed yet
		m.MachineID = types.StringUnknown()
	}
	if m.Expiry.IsNull() || m.certified(ctx, state, s) {
		m.Expiry = types.StringUnknown()
	}
}

// certified reports whether going from before to m may issue certificates.
func (m *replicaModel) certified(ctx context.Context, before replicaModel, s *session) bool {
	return drifted(before.Drift) || m.renamed(&before.machineModel) || m.rotated(&before.machineModel, pki.Parts()...) ||
		s.signedChanged(ctx, before.Signed, m.Signed) || m.runtime() != before.runtime() || changed(
		[2]attr.Value{m.AdminConf, before.AdminConf},
		[2]attr.Value{m.Endpoint, before.Endpoint},
		[2]attr.Value{m.AdditionalEndpoints, before.AdditionalEndpoints},
		[2]attr.Value{m.ServiceCIDRs, before.ServiceCIDRs},
		[2]attr.Value{m.ClusterDomain, before.ClusterDomain},
		[2]attr.Value{m.ExtraSANs, before.ExtraSANs},
		[2]attr.Value{m.Konnectivity, before.Konnectivity},
		[2]attr.Value{m.EarlyRenewal, before.EarlyRenewal},
	)
}

func (m *replicaModel) keepPlanned(plan replicaModel) {
	m.Registered, m.MachineID, m.Expiry = planned(plan.Registered, m.Registered), planned(plan.MachineID, m.MachineID),
		planned(plan.Expiry, m.Expiry)
	m.ConfigDigest, m.Drift = planned(plan.ConfigDigest, m.ConfigDigest), planned(plan.Drift, m.Drift)
}

// knownStrings returns the strings, and whether all of them are known. Null is nil.
func knownStrings(ctx context.Context, list collection, diags *diag.Diagnostics) ([]string, bool) {
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
