package provider

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/nodebootstrap"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// nodeBootstrapResource is what kubeadm join of a worker reads: objects of the Kubernetes API.
type nodeBootstrapResource struct{ configured }

var (
	_ resource.Resource                   = (*nodeBootstrapResource)(nil)
	_ resource.ResourceWithConfigure      = (*nodeBootstrapResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*nodeBootstrapResource)(nil)
	_ resource.ResourceWithValidateConfig = (*nodeBootstrapResource)(nil)
	_ resource.ResourceWithImportState    = (*nodeBootstrapResource)(nil)
)

type nodeBootstrapModel struct {
	PKI             types.String   `tfsdk:"pki"`
	Endpoint        types.Object   `tfsdk:"endpoint"`
	Version         types.String   `tfsdk:"version"`
	ServiceCIDRs    types.List     `tfsdk:"service_cidrs"`
	PodCIDRs        types.List     `tfsdk:"pod_cidrs"`
	ClusterDomain   types.String   `tfsdk:"cluster_domain"`
	ClusterDNS      types.List     `tfsdk:"cluster_dns"`
	KubeletConfig   types.String   `tfsdk:"kubelet_config"`
	DiscoveryByFile types.Bool     `tfsdk:"discovery_by_file"`
	Adopt           types.Bool     `tfsdk:"adopt"`
	Timeouts        timeouts.Value `tfsdk:"timeouts"`

	ID            types.String `tfsdk:"id"`
	Hashes        types.List   `tfsdk:"ca_cert_hashes"`
	DiscoveryFile types.String `tfsdk:"discovery_file"`
	Drift         types.List   `tfsdk:"drift"`
}

const (
	nodeBootstrapKind = "kube_node_bootstrap"
	nodeBootstrapTime = 5 * time.Minute
)

func newNodeBootstrapResource() resource.Resource { return &nodeBootstrapResource{} }

func (r *nodeBootstrapResource) Metadata(
	_ context.Context, _ resource.MetadataRequest, resp *resource.MetadataResponse,
) {
	resp.TypeName = nodeBootstrapKind
}

func (r *nodeBootstrapResource) Schema(
	ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse,
) {
	resp.Schema = nodeBootstrapSchema(ctx)
}

// ValidateConfig checks the rules between attributes.
func (r *nodeBootstrapResource) ValidateConfig(
	ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse,
) {
	var model nodeBootstrapModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	services, known := knownStrings(ctx, model.ServiceCIDRs, &resp.Diagnostics)
	pods, podsKnown := knownStrings(ctx, model.PodCIDRs, &resp.Diagnostics)
	if resp.Diagnostics.HasError() || !known || !podsKnown {
		return
	}
	if services == nil {
		services = []string{defaultServiceCIDR}
	}
	err := component.ValidateCIDRs(services, pods)
	if err == nil && model.ClusterDNS.IsNull() {
		_, err = nodebootstrap.DNSAddress(services)
	}
	if err != nil {
		addInvalid(&resp.Diagnostics, path.Root("service_cidrs"), "Invalid CIDRs", err)
	}
}

// ModifyPlan plans what follows from the arguments, and no drift.
func (r *nodeBootstrapResource) ModifyPlan(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) {
	if req.Plan.Raw.IsNull() {
		return
	}
	var plan, state nodeBootstrapModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	bundle := r.session.bundle(plan.PKI, &resp.Diagnostics)
	refuseForeignEndpoint(ctx, plan.Endpoint, bundle, &resp.Diagnostics)
	refuseExternalCA(bundle, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	if !req.State.Raw.IsNull() {
		resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
		r.session.refuseMovedCA(state.PKI, bundle, &resp.Diagnostics)
		r.session.refuseLostBundle(ctx, state.PKI, plan.PKI, req.Private, &resp.Diagnostics)
		r.session.refuseOtherCluster(ctx, state.PKI, bundle, req.Private, &resp.Diagnostics)
		if otherCluster(r.session.prior(state.PKI), bundle) {
			resp.RequiresReplace = append(resp.RequiresReplace, path.Root("pki"))
		}
		plan.warnNotKept(state, &resp.Diagnostics)
	}
	plan.fill(ctx, bundle, &resp.Diagnostics)
	plan.Drift = noDrift()
	resp.Diagnostics.Append(resp.Plan.Set(ctx, plan)...)
}

// warnNotKept says what the objects lose when adopt is taken back.
func (m *nodeBootstrapModel) warnNotKept(state nodeBootstrapModel, diags *diag.Diagnostics) {
	if state.Adopt.ValueBool() && !m.Adopt.IsUnknown() && !m.Adopt.ValueBool() {
		diags.AddAttributeWarning(path.Root("adopt"), "Fields of kubeadm's configuration are removed",
			"Without adopt, the apply removes what kubeadm has written to kubeadm-config and kubelet-config and this "+
				"resource does not set, such as etcd.external and certificatesDir: kubeadm certs and kubeadm upgrade read "+
				"them.\nNext step: keep adopt = true.")
	}
}

// applied reports whether the objects are as an apply of the resource has made them, beyond drift. An import has not
// read them, and sets no adopt.
func (m *nodeBootstrapModel) applied(ctx context.Context, private privateState, diags *diag.Diagnostics) bool {
	return m.Adopt.ValueBool() || clusterImported(ctx, private, diags) == ""
}

// refuseExternalCA rejects a bundle with which no worker can join.
func refuseExternalCA(bundle *pki.Bundle, diags *diag.Diagnostics) {
	if bundle != nil && bundle.External(pki.Kubernetes) {
		addInvalid(diags, path.Root("pki"), "Workers cannot join", controlplane.ErrExternalCA)
	}
}

// refuseMovedCA is refuseExternalCA for a bundle that is not known yet, because the plan moves the key. before is that
// of the state.
func (s *session) refuseMovedCA(before types.String, bundle *pki.Bundle, diags *diag.Diagnostics) {
	prior := s.prior(before)
	if bundle == nil && prior != nil && s.rotationEnds.movesKey(prior.ClusterID) {
		addInvalid(diags, path.Root("pki"), "Workers cannot join", controlplane.ErrExternalCA)
	}
}

// fill sets the computed values that follow from the arguments. They are unknown while an argument is.
func (m *nodeBootstrapModel) fill(ctx context.Context, bundle *pki.Bundle, diags *diag.Diagnostics) {
	m.ID, m.DiscoveryFile = types.StringUnknown(), types.StringUnknown()
	m.Hashes = types.ListUnknown(types.StringType)
	if bundle == nil {
		return
	}
	m.ID = types.StringValue(bundle.ClusterID)
	m.Hashes = hashesOf(bundle, diags)
	if elementsKnown(ctx, m.Endpoint) {
		m.DiscoveryFile = types.StringValue(m.settings(ctx, bundle, diags).DiscoveryFile())
	}
}

func hashesOf(bundle *pki.Bundle, diags *diag.Diagnostics) types.List {
	pins, err := nodebootstrap.Pins(bundle)
	if err != nil {
		addError(diags, path.Root("pki"), "CA not read", err)
	}
	return stringList(pins)
}

// settings returns the objects that the model describes.
func (m *nodeBootstrapModel) settings(
	ctx context.Context, bundle *pki.Bundle, diags *diag.Diagnostics,
) nodebootstrap.Settings {
	registration := decodeEndpoint(ctx, m.Endpoint, bundle, diags)
	return nodebootstrap.Settings{
		Bundle: bundle, Host: registration.Address, Port: registration.Port,
		Version: m.Version.ValueString(), ClusterDomain: m.ClusterDomain.ValueString(),
		ServiceCIDRs: stringsOf(ctx, m.ServiceCIDRs, diags), PodCIDRs: stringsOf(ctx, m.PodCIDRs, diags),
		ClusterDNS: stringsOf(ctx, m.ClusterDNS, diags), KubeletConfig: m.KubeletConfig.ValueString(),
		DiscoveryByFile: m.DiscoveryByFile.ValueBool(), Adopt: m.Adopt.ValueBool(),
	}
}

// spec returns what the model describes, with the way to its cluster.
func (r *nodeBootstrapResource) spec(
	ctx context.Context, m *nodeBootstrapModel, diags *diag.Diagnostics,
) controlplane.NodeBootstrap {
	if diags.HasError() || !r.connected(diags) {
		return controlplane.NodeBootstrap{}
	}
	bundle := r.session.mustBundle(m.PKI, diags)
	refuseExternalCA(bundle, diags)
	if diags.HasError() {
		return controlplane.NodeBootstrap{}
	}
	return controlplane.NodeBootstrap{
		Settings:  m.settings(ctx, bundle, diags),
		Registrar: r.session.registrars.For(decodeEndpoint(ctx, m.Endpoint, bundle, diags)),
	}
}

func (r *nodeBootstrapResource) Create(
	ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse,
) {
	var model nodeBootstrapModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	timeout, diags := model.Timeouts.Create(ctx, nodeBootstrapTime)
	resp.Diagnostics.Append(diags...)
	if err := r.apply(ctx, &model, false, timeout, &resp.Diagnostics); err != nil {
		addError(&resp.Diagnostics, path.Root("endpoint"), "Objects for joining workers not applied", err)
		keepPartial(ctx, resp, model, err)
		return
	}
	if !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
	}
}

// apply applies the objects and sets the computed values. It claims the identity of the objects for this run.
func (r *nodeBootstrapResource) apply(
	ctx context.Context, m *nodeBootstrapModel, overwrites bool, timeout time.Duration, diags *diag.Diagnostics,
) error {
	s := r.spec(ctx, m, diags)
	if diags.HasError() {
		return nil
	}
	s.Overwrites = overwrites
	m.fill(ctx, s.Bundle, diags)
	m.Drift = noDrift()
	ctx, cancel := operation(ctx, timeout, nodeBootstrapKind, s.Bundle.ClusterName)
	defer cancel()
	r.session.begin()
	r.session.adoptions.record(identity(nodeBootstrapKind, s.Bundle.ClusterID))
	status, err := r.session.replicas.ApplyNodeBootstrap(ctx, s)
	if err != nil {
		return err
	}
	warnClosed(status.Closed, diags)
	warnDrift(diags, "The cluster's configuration for workers", status.Drift, "check who else changes these objects.")
	return nil
}

// warnClosed says why kubeadm join would wait in vain for cluster-info.
func warnClosed(replicas []string, diags *diag.Diagnostics) {
	if len(replicas) > 0 {
		diags.AddAttributeWarning(path.Root("discovery_by_file"), "Workers cannot read cluster-info",
			"Cause: the API servers of "+strings.Join(problem.Lines(replicas), ", ")+" refuse requests without "+
				"credentials for "+nodebootstrap.ClusterInfoPath+", so kubeadm join with a discovery token waits until it "+
				"gives up.\nNext step: add that path to authentication.anonymous_paths of all replicas; or set "+
				"discovery_by_file = true and join with the discovery_file of a kube_bootstrap_token.")
	}
}

// Read compares the objects. Without an API server that is ready, it keeps the state: the plan that repairs the
// control plane must be possible.
func (r *nodeBootstrapResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var model nodeBootstrapModel
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	timeout, diags := model.Timeouts.Read(ctx, time.Minute)
	resp.Diagnostics.Append(diags...)
	const what = "Objects for joining workers"
	if resp.Diagnostics.HasError() ||
		!r.session.restoreBundle(ctx, &model.PKI, req.Private, what, &resp.Diagnostics) {
		return
	}
	s := r.spec(ctx, &model, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := operation(ctx, timeout, nodeBootstrapKind, s.Bundle.ClusterName)
	defer cancel()
	status, err := r.session.replicas.ReadNodeBootstrap(ctx, s)
	if err != nil {
		reportUnasked(&resp.Diagnostics, what, err)
		return
	}
	model.fill(ctx, s.Bundle, &resp.Diagnostics)
	model.Drift = stringList(status.Drift)
	warnClosed(status.Closed, &resp.Diagnostics)
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

// reportUnasked reports why the API of a cluster could not be asked. Only what a person must correct before any
// operation is an error.
func reportUnasked(diags *diag.Diagnostics, what string, err error) {
	p := asProblem(what+" not read", err)
	if errors.Is(err, host.ErrHostKey) || errors.Is(err, host.ErrAuth) || errors.Is(err, host.ErrNotRoot) {
		diags.AddAttributeError(path.Root("endpoint"), p.Title(), p.Text())
		return
	}
	p.Unchanged = "the state keeps the last observed values."
	diags.AddWarning(what+" not read", p.Title()+"\n"+p.Text())
}

func (r *nodeBootstrapResource) Update(
	ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse,
) {
	var model, state nodeBootstrapModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	timeout, diags := model.Timeouts.Update(ctx, nodeBootstrapTime)
	resp.Diagnostics.Append(diags...)
	overwrites := state.applied(ctx, req.Private, &resp.Diagnostics)
	if err := r.apply(ctx, &model, overwrites, timeout, &resp.Diagnostics); err != nil {
		addError(&resp.Diagnostics, path.Root("endpoint"), "Objects for joining workers not applied", err)
	}
	if !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
		resp.Diagnostics.Append(resp.Private.SetKey(ctx, importedCluster, nil)...)
	}
}

// Delete deletes what the provider alone manages. Without replicas there is no API server to ask, and what is in
// etcd ends with it.
func (r *nodeBootstrapResource) Delete(
	ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse,
) {
	var model nodeBootstrapModel
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	timeout, diags := model.Timeouts.Delete(ctx, nodeBootstrapTime)
	resp.Diagnostics.Append(diags...)
	if model.PKI.IsNull() {
		refuseWithoutBundle("Configuration for workers", &resp.Diagnostics)
	}
	s := r.spec(ctx, &model, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	superseded := r.session.adoptions.superseded(identity(nodeBootstrapKind, s.Bundle.ClusterID))
	if superseded() {
		return
	}
	ctx, cancel := operation(ctx, timeout, nodeBootstrapKind, s.Bundle.ClusterName)
	defer cancel()
	r.session.begin()
	left, err := r.session.replicas.DeleteNodeBootstrap(ctx, s, superseded)
	switch {
	case errors.Is(err, controlplane.ErrNoReplicas):
		resp.Diagnostics.AddWarning("Objects not deleted", "The endpoint has no replica, so there is no API server that "+
			"could delete the objects. If etcd keeps its data and gets replicas again, they are still there.")
	case err != nil:
		addError(&resp.Diagnostics, path.Root("endpoint"), "Objects for joining workers not deleted", err)
	default:
		warnLeft(left, &resp.Diagnostics)
	}
}

func warnLeft(left controlplane.DeletedNodeBootstrap, diags *diag.Diagnostics) {
	if len(left.Kept) > 0 {
		diags.AddWarning("Objects kept", "Others manage these objects too, so they stay:\n  "+
			strings.Join(problem.Lines(left.Kept), "\n  "))
	}
	if len(left.Tokens) > 0 {
		diags.AddWarning("Bootstrap tokens still exist", "No worker can join any more, but these bootstrap tokens still "+
			"log in: "+strings.Join(problem.Lines(left.Tokens), ", ")+".\nNext step: destroy their kube_bootstrap_token, "+
			"or delete them (kubeadm token delete).")
	}
}
