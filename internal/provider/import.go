package provider

import (
	"context"
	"encoding/json"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/identityschema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// An import reads from a machine what its configuration would be, and changes nothing. The
// bundle is not on any machine: see knownBundles.

// importTime limits the duration of an import.
const importTime = time.Minute

// addressIdentity is the identity of a resource of which a machine has at most one.
func addressIdentity(what string) identityschema.Schema {
	return identityschema.Schema{Attributes: map[string]identityschema.Attribute{
		"address": identityschema.StringAttribute{RequiredForImport: true, Description: what},
	}}
}

// identify sets the identity if Terraform supports it (1.12 or later).
func identify(ctx context.Context, to *tfsdk.ResourceIdentity, address types.String, diags *diag.Diagnostics) {
	if to != nil && allKnown(address) {
		diags.Append(to.SetAttribute(ctx, path.Root("address"), address)...)
	}
}

// importedFrom returns the address that an import names, by ID or by identity.
func importedFrom(ctx context.Context, req resource.ImportStateRequest, diags *diag.Diagnostics) string {
	address := types.StringValue(req.ID)
	if req.ID == "" && req.Identity != nil {
		diags.Append(req.Identity.GetAttribute(ctx, path.Root("address"), &address)...)
	}
	if _, err := netip.ParseAddr(address.ValueString()); err != nil && !diags.HasError() {
		shown := "the ID"
		if id := address.ValueString(); len(id) < maxImportID { // a longer one may be a content with keys
			shown = problem.Quote(id)
		}
		diags.AddError("Import not possible", "Cause: "+shown+" is not the IP address of a "+
			"machine.\nUnchanged: nothing was changed.\nNext step: use the address of the machine in its cluster, "+
			"such as 10.0.0.11; the provider's ssh settings configure the connection.")
	} else if err := host.CheckAddressForm(address.ValueString()); err != nil && !diags.HasError() {
		// The configuration has the canonical form, so the next plan would replace the resource.
		diags.AddError("Import not possible", "Cause: "+err.Error()+".\nUnchanged: nothing was changed.\nNext step: "+
			"import with the address in that form.")
	}
	return address.ValueString()
}

// maxImportID is longer than any address.
const maxImportID = 64

// importer writes imported values to the state.
type importer struct {
	ctx  context.Context
	resp *resource.ImportStateResponse
}

// set sets one attribute.
func (i importer) set(attribute string, value any) {
	i.resp.Diagnostics.Append(i.resp.State.SetAttribute(i.ctx, attributePath(attribute), value)...)
}

// importedCluster is the private-state key of the cluster of a resource that was imported
// without its bundle.
const importedCluster = "imported_cluster_id"

// keepCluster stores the ID of the cluster whose bundle the resource needs.
func (i importer) keepCluster(id string) {
	text, err := json.Marshal(id)
	if err == nil && i.resp.Private != nil { // a list of resources has no private state
		i.resp.Diagnostics.Append(i.resp.Private.SetKey(i.ctx, importedCluster, text)...)
	}
}

// privateState is the private state of a resource, as the requests provide it.
type privateState interface {
	GetKey(ctx context.Context, key string) ([]byte, diag.Diagnostics)
}

// clusterImported returns the cluster that keepCluster stored, or "".
func clusterImported(ctx context.Context, private privateState, diags *diag.Diagnostics) string {
	text, more := private.GetKey(ctx, importedCluster)
	diags.Append(more...)
	var id string
	if len(text) > 0 && json.Unmarshal(text, &id) != nil {
		return ""
	}
	return id
}

// knownBundles are the bundles that this run has read, by cluster ID. An imported resource
// takes its cluster's bundle from here. Terraform reads the kube_pki_bundle first, because the
// configuration refers to it, so the imported state matches the configuration.
type knownBundles struct {
	mu          sync.Mutex
	texts       map[string]string
	authorities map[string]string // Kubernetes authorities, by cluster ID
}

func (b *knownBundles) keep(clusterID, text, authority string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.texts == nil {
		b.texts, b.authorities = map[string]string{}, map[string]string{}
	}
	b.texts[clusterID], b.authorities[clusterID] = text, authority
}

// ofAuthority returns the bundle with that Kubernetes authority. A kubeconfig contains no
// cluster ID.
func (b *knownBundles) ofAuthority(certificates string) types.String {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, authority := range b.authorities {
		if authority == certificates {
			return types.StringValue(b.texts[id])
		}
	}
	return types.StringNull()
}

func (b *knownBundles) of(clusterID string) types.String {
	b.mu.Lock()
	defer b.mu.Unlock()
	if text, ok := b.texts[clusterID]; ok {
		return types.StringValue(text)
	}
	return types.StringNull()
}

// restoreBundle sets the bundle of a resource that was imported without one to its cluster's
// bundle. It reports whether the resource has a bundle now.
func (s *session) restoreBundle(
	ctx context.Context, value *types.String, private privateState, what string, diags *diag.Diagnostics,
) bool {
	if !value.IsNull() || s == nil {
		return true
	}
	*value = s.bundles.of(clusterImported(ctx, private, diags))
	if value.IsNull() && !diags.HasError() {
		diags.AddWarning(what+" not read", "The resource was imported, but its PKI bundle is not known yet. "+
			"Without the bundle, neither its health nor its drift can be read.\nUnchanged: the imported "+
			"state.\nNext step: set pki in the configuration and plan. If the bundle is that of a kube_pki_bundle "+
			"in the same configuration, import that resource too.")
	}
	return !value.IsNull()
}

// refuseOtherCluster rejects the bundle of another cluster for a resource that was imported
// without one. Comparing the old and the new bundle cannot detect this case.
func (s *session) refuseOtherCluster(
	ctx context.Context, before types.String, planned *pki.Bundle, private privateState, diags *diag.Diagnostics,
) {
	if !before.IsNull() || planned == nil {
		return
	}
	if id := clusterImported(ctx, private, diags); id != "" && id != planned.ClusterID {
		diags.AddAttributeError(path.Root("pki"), "Bundle of another cluster",
			"Cause: the imported resource belongs to the cluster "+id+", but the bundle belongs to "+planned.ClusterID+
				".\nUnchanged: nothing was changed.\nNext step: import that cluster's kube_pki_bundle and refer to it, "+
				"or remove this resource from the state (terraform state rm).")
	}
}

// refuseWithoutBundle refuses to destroy a resource that was imported and never got its bundle.
func refuseWithoutBundle(what string, diags *diag.Diagnostics) {
	diags.AddAttributeError(path.Root("pki"), what+" not deleted",
		"Cause: the resource was imported and has no PKI bundle, which is required to remove it from its "+
			"cluster.\nUnchanged: nothing was changed.\nNext step: set pki in the configuration and apply, then "+
			"destroy; or remove it from the state (terraform state rm).")
}

// machineFor returns the machine that an import reads, or nil with a diagnostic.
func (c *configured) machineFor(
	ctx context.Context, req resource.ImportStateRequest, diags *diag.Diagnostics,
) *host.Host {
	address := importedFrom(ctx, req, diags)
	if diags.HasError() || !c.connected(diags) {
		return nil
	}
	return c.session.machine(address)
}

func addressValue(machine *host.Host) types.String { return types.StringValue(machine.Address()) }

// warnInherited tells what the next restart of something that kubeadm has created brings.
func warnInherited(diags *diag.Diagnostics, what string, added []string) {
	if len(added) > 0 {
		diags.AddWarning(what+" runs as kubeadm has configured it",
			"It is managed as it is, and an apply that changes nothing of it restarts nothing. The first change that needs a "+
				"restart writes the provider's manifest, with all flags that it has now. That also adds:\n  "+
				strings.Join(added, "\n  ")+"\nNext step: set a flag in extra_args to keep another value.")
	}
}

// durationText formats a duration in its short form, "1h" rather than "1h0m0s". Zero becomes
// null.
func durationText(d time.Duration) types.String {
	if d == 0 {
		return types.StringNull()
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return types.StringValue(text)
}

// sameDuration keeps the state's value if the planned duration differs only in notation. An
// import cannot know the notation of the configuration.
type sameDuration struct{}

func (sameDuration) Description(context.Context) string {
	return "An equal duration in another format is not a change."
}

func (sameDuration) MarkdownDescription(context.Context) string {
	return "An equal duration in another format is not a change."
}

func (sameDuration) PlanModifyString(
	_ context.Context, req planmodifier.StringRequest, resp *planmodifier.StringResponse,
) {
	if !allKnown(req.StateValue, req.PlanValue, req.ConfigValue) {
		return
	}
	before, err := parseDuration(req.StateValue)
	after, otherErr := parseDuration(req.PlanValue)
	if err == nil && otherErr == nil && before == after {
		resp.PlanValue = req.StateValue
	}
}
