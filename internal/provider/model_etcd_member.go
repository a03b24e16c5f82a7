package provider

import (
	"context"
	"fmt"
	"reflect"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/disruption"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

type etcdMemberModel struct {
	machineModel
	hookedEndpoints

	Name        types.String `tfsdk:"name"`
	Host        types.Object `tfsdk:"host"`
	Peers       types.Map    `tfsdk:"peers"`
	Signed      types.Object `tfsdk:"signed"`
	Version     types.String `tfsdk:"version"`
	Runtime     types.String `tfsdk:"runtime"`
	Image       types.String `tfsdk:"image"`
	Patch       types.String `tfsdk:"patch"`
	Install     types.Object `tfsdk:"install_kubelet"`
	ExtraArgs   types.Map    `tfsdk:"extra_args"`
	Environment types.Map    `tfsdk:"environment"`
	Resources   types.Object `tfsdk:"resources"`
	Kept        types.Int64  `tfsdk:"upgrade_snapshots_kept"`
	Archives    types.Int64  `tfsdk:"archives_kept"`
	Snapshots   types.Object `tfsdk:"snapshots"`
	Restore     types.Object `tfsdk:"restore"`
	Liveness    types.Bool   `tfsdk:"liveness_probe"`
	Metrics     types.Object `tfsdk:"metrics"`
	DataDir     types.String `tfsdk:"data_dir"`
	Archived    types.String `tfsdk:"archived_data_dir"`
	Volume      types.Object `tfsdk:"volume"`
	OnDestroy   types.String `tfsdk:"on_destroy"`
	Early       types.String `tfsdk:"early_renewal"`
	Maintenance types.Object `tfsdk:"maintenance"`

	ClientURL types.String `tfsdk:"client_url"`
	PeerURL   types.String `tfsdk:"peer_url"`

	Learner   types.Bool   `tfsdk:"learner"`
	MachineID types.String `tfsdk:"machine_id"`
	Expiry    types.String `tfsdk:"certificate_expires_at"`
}

// resourceID returns the member's ID in disruption, or "" while it is unknown.
func (m etcdMemberModel) resourceID() string {
	address := addressOf(m.Host)
	if !allKnown(m.Name, address) {
		return ""
	}
	return disruption.ID(m.Name.ValueString(), address.ValueString())
}

func (m *etcdMemberModel) name() string          { return m.Name.ValueString() }
func (m *etcdMemberModel) at() path.Path         { return path.Root("host").AtName("address") }
func (m *etcdMemberModel) label() string         { return fmt.Sprintf("etcd member %q", m.name()) }
func (m *etcdMemberModel) address() types.String { return addressOf(m.Host) }

func (m *etcdMemberModel) signature(context.Context) signature {
	return signature{m.Signed, m.leaves(), addressOf(m.Host)}
}

// derive sets the attributes that follow from the arguments.
func (m *etcdMemberModel) derive(context.Context, *diag.Diagnostics) {
	if address := addressOf(m.Host); !address.IsUnknown() {
		m.ClientURL = types.StringValue(membership.ClientURL(address.ValueString()))
		m.PeerURL = types.StringValue(membership.PeerURL(address.ValueString()))
	}
}

// leaves returns the member's certificates, or nil while they are unknown.
func (m etcdMemberModel) leaves() []pki.Leaf {
	address := addressOf(m.Host)
	if !allKnown(m.Name, address) {
		return nil
	}
	return machine.Leaves(m.Name.ValueString(), address.ValueString())
}

// affectsMachine reports whether going from before to m requires a change on the machine. Peers, timeouts, endpoint,
// install_kubelet, on_destroy and archives_kept are only read when they are needed. Of the bundle, a
// member uses the etcd authority and the cluster's name only.
func (m *etcdMemberModel) affectsMachine(ctx context.Context, before etcdMemberModel, s *session) bool {
	return drifted(before.Drift) || m.renamed(&before.machineModel) || m.rotated(&before.machineModel, pki.EtcdPart) ||
		m.restoreDue(before) || m.moves(before) || runtimeOf(m.Runtime) != runtimeOf(before.Runtime) ||
		!reflect.DeepEqual(recordedVolume(m.Volume), recordedVolume(before.Volume)) ||
		s.signedChanged(ctx, before.Signed, m.Signed) || changed(
		[2]attr.Value{m.Version, before.Version},
		[2]attr.Value{m.Image, before.Image},
		[2]attr.Value{m.Patch, before.Patch},
		[2]attr.Value{m.ExtraArgs, before.ExtraArgs},
		[2]attr.Value{m.Environment, before.Environment},
		[2]attr.Value{m.Resources, before.Resources},
		[2]attr.Value{m.Early, before.Early},
		[2]attr.Value{m.Kept, before.Kept},
		[2]attr.Value{m.Snapshots, before.Snapshots},
		[2]attr.Value{m.Liveness, before.Liveness},
		[2]attr.Value{m.Metrics, before.Metrics},
	)
}

// restoreDue reports whether m requests a restore that before does not.
func (m *etcdMemberModel) restoreDue(before etcdMemberModel) bool {
	id := restoreID(m.Restore)
	return !id.IsNull() && !id.Equal(restoreID(before.Restore))
}

// warnEvenPeers warns of an even number of members, which tolerates no more failures than one
// member less. It is valid as an intermediate step.
func (m etcdMemberModel) warnEvenPeers(diags *diag.Diagnostics) {
	if n := len(m.Peers.Elements()); !m.Peers.IsUnknown() && n%2 == 0 {
		diags.AddAttributeWarning(path.Root("peers"), fmt.Sprintf("Even number of etcd members: %d", n),
			fmt.Sprintf("%d members tolerate the loss of %d, as many as %d members do, and each additional member "+
				"can fail too. An even number is acceptable while you scale; otherwise use 1, 3 or 5 members.", n, (n-1)/2, n-1))
	}
}

// fill sets the attributes from the observed status.
func (m *etcdMemberModel) fill(s etcd.Status) {
	switch {
	case s.ID != "":
		m.ID = types.StringValue(s.ID)
	case m.ID.IsUnknown(): // a Create that failed before the member had an ID
		m.ID = types.StringNull()
	}
	m.Learner = types.BoolValue(s.Learner)
	m.fillMachine(s)
	m.ConfigDigest = types.StringValue(s.ConfigDigest)
	m.Expiry = timeString(s.CertificateExpiry)
	m.Drift, m.remedy, m.newID = stringList(s.Drift), s.Remedy, s.NewID
}

// fillMachine sets the machine on which the member ran last. A machine that does not have the member may have got its
// address: the former one stays, because it tells whether data is the newest copy, and where the member may be stopped.
func (m *etcdMemberModel) fillMachine(s etcd.Status) {
	m.newMachine = false
	switch {
	case s.Holds, m.MachineID.IsNull() && s.MachineID != "": // an import has observed none yet
		m.MachineID = types.StringValue(s.MachineID)
	case m.MachineID.IsUnknown(): // a Create that failed before the machine had the member
		m.MachineID = types.StringNull()
	default:
		m.newMachine = s.MachineID != "" && s.MachineID != m.MachineID.ValueString()
	}
}

// keepObserved plans the last observed values, because the machine is not changed.
func (m *etcdMemberModel) keepObserved(state etcdMemberModel) {
	m.ID, m.Learner, m.MachineID = state.ID, state.Learner, state.MachineID
	m.ConfigDigest, m.Expiry, m.Drift = state.ConfigDigest, state.Expiry, state.Drift
}

// planUpdate plans the values that an update results in. Only values that may change become
// known after the apply.
func (m *etcdMemberModel) planUpdate(ctx context.Context, state etcdMemberModel, s *session) {
	m.keepObserved(state)
	m.ConfigDigest, m.Drift = types.StringUnknown(), noDrift()
	if state.newID || m.restoreDue(state) {
		m.ID = types.StringUnknown()
	}
	if state.Learner.ValueBool() { // it is promoted
		m.Learner = types.BoolUnknown()
	}
	if m.moves(state) || state.newMachine {
		m.MachineID = types.StringUnknown()
	}
	if drifted(state.Drift) || m.moves(state) || m.restoreDue(state) || m.rotated(&state.machineModel, pki.EtcdPart) ||
		s.signedChanged(ctx, state.Signed, m.Signed) || !m.Early.Equal(state.Early) {
		m.Expiry = types.StringUnknown()
	}
	m.unknownIfNull()
}

// unknownIfNull makes the values that an import has not observed yet known after the apply.
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
	m.ID, m.Learner, m.MachineID = planned(plan.ID, m.ID), planned(plan.Learner, m.Learner), planned(plan.MachineID,
		m.MachineID)
	m.ConfigDigest, m.Expiry, m.Drift = planned(plan.ConfigDigest, m.ConfigDigest), planned(plan.Expiry, m.Expiry),
		planned(plan.Drift, m.Drift)
}
