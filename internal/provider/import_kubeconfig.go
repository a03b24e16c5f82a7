package provider

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// ImportState imports an existing kubeconfig: a local file, or the administrators' kubeconfig
// on a replica's machine.
func (r *kubeconfigResource) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	text := r.imported(ctx, req, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	access, err := pki.ParseAccess(text)
	if err == nil && (access.Client.Certificate == "" || access.Client.PrivateKey == "" || access.CA == "") {
		err = errors.New("it does not embed the CA certificate, the client certificate and the key, as the " +
			"kubeconfigs of this resource do")
	}
	if err != nil {
		addError(&resp.Diagnostics, path.Empty(), "Kubeconfig not imported", err)
		return
	}
	i := importer{ctx, resp}
	i.set("server", access.Server)
	var model kubeconfigResourceModel
	resp.Diagnostics.Append(resp.State.Get(ctx, &model)...)
	model.take(text, access, &resp.Diagnostics)
	r.seal(&model, &resp.Diagnostics)
	model.SealedFor = r.session.sealedFor()
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

// imported returns the kubeconfig that the ID names.
func (r *kubeconfigResource) imported(
	ctx context.Context, req resource.ImportStateRequest, diags *diag.Diagnostics,
) string {
	if r.session == nil || !r.session.sealKnown {
		addUnknownSettings(diags)
		return ""
	}
	if file, ok := strings.CutPrefix(req.ID, backupPrefix); ok {
		text, err := readNamed(file)
		if err != nil {
			addError(diags, path.Empty(), "Kubeconfig not imported", fmt.Errorf("read the kubeconfig: %w", err))
		}
		return text
	}
	machine := r.machineFor(ctx, req, diags)
	if machine == nil {
		return ""
	}
	ctx, cancel := operation(ctx, importTime, "kube_kubeconfig", machine.Address())
	defer cancel()
	text, err := r.session.replicas.ImportKubeconfig(ctx, machine)
	if err != nil {
		addError(diags, path.Empty(), "Kubeconfig not imported", err)
	}
	return text
}

// take sets the attributes from the contents of a kubeconfig.
func (m *kubeconfigResourceModel) take(text string, access pki.Access, diags *diag.Diagnostics) {
	info, err := pki.Inspect(access.Client.Certificate)
	if err != nil {
		addError(diags, path.Empty(), "Kubeconfig not imported", err)
		return
	}
	m.User, m.Groups = types.StringValue(info.CommonName), stringSet(info.Organizations)
	m.Validity = durationText(info.Life())
	if info.Life()%time.Hour != 0 { // it was shortened, or issued by another tool
		m.Validity = durationText(credentialLife)
	}
	m.ID, m.Content = types.StringValue(info.SHA256), types.StringValue(text)
	m.CACertificate, m.ClientCertificate = types.StringValue(access.CA), types.StringValue(access.Client.Certificate)
	m.ClientKey, m.ExpiresAt = types.StringValue(access.Client.PrivateKey), timeString(info.NotAfter)
}

// restoreBundle sets the bundle of an imported kubeconfig to the one with its authority. It
// reports whether it did.
func (r *kubeconfigResource) restoreBundle(m *kubeconfigResourceModel) bool {
	if r.session == nil || !m.PKI.IsNull() {
		return false
	}
	m.PKI = r.session.bundles.ofAuthority(m.CACertificate.ValueString())
	return !m.PKI.IsNull()
}
