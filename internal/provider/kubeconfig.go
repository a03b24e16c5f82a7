package provider

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// kubeconfigModel has the attributes that the managed and the ephemeral kubeconfig share.
type kubeconfigModel struct {
	Server        types.String `tfsdk:"server"`
	Groups        types.Set    `tfsdk:"groups"`
	Content       types.String `tfsdk:"content"`
	CACertificate types.String `tfsdk:"cluster_ca_certificate"`
	clientModel
}

// The defaults are those of kubeadm's admin.conf, which is bound to cluster-admin by the
// ClusterRoleBinding that every replica ensures.
const defaultUser = "kubernetes-admin"

var defaultGroups = types.SetValueMust(types.StringType, []attr.Value{types.StringValue("kubeadm:cluster-admins")})

// issue creates a new client certificate and a kubeconfig that contains it. It returns the certificate's fingerprint.
// standard is the validity if none is set.
func (m *kubeconfigModel) issue(
	ctx context.Context, bundle *pki.Bundle, now time.Time, standard time.Duration, diags *diag.Diagnostics,
) string {
	groups := stringsOf(ctx, m.Groups, diags)
	if diags.HasError() {
		return ""
	}
	pair, info, err := m.certify(pki.User(m.User.ValueString(), groups...), bundle, now, standard)
	// Only with the ephemeral kubeconfig: its lifetime is too short for an external signer.
	if errors.Is(err, pki.ErrExternal) {
		err = &problem.Problem{
			Summary: "Kubeconfig not issued", Cause: err.Error(), Unchanged: problem.Nothing, Err: err,
			Next: "use the resource kube_kubeconfig, whose signed attribute accepts the certificate signed for a " +
				"kube_certificate_requests.",
		}
	}
	if err != nil {
		addError(diags, path.Root("user"), "Kubeconfig not issued", err)
		return ""
	}
	text, err := pki.Kubeconfig(pki.KubeconfigSpec{
		Cluster: bundle.ClusterName,
		Server:  m.Server.ValueString(),
		CA:      bundle.Roots(pki.Kubernetes),
		User:    m.User.ValueString(),
		Client:  pair,
	})
	if err != nil {
		addError(diags, path.Root("server"), "Kubeconfig not written", err)
		return ""
	}
	m.Content, m.CACertificate = types.StringValue(text), types.StringValue(bundle.Roots(pki.Kubernetes))
	return info.SHA256
}

// Descriptions that both schemas share.
const (
	kubeconfigPKI    = "The `bundle` of the cluster's `kube_pki_bundle`."
	kubeconfigServer = "URL of the API: the `url` of the cluster's `kube_control_plane_endpoint`."
	kubeconfigUser   = "User name, which is the certificate's common name. Default `" + defaultUser + "`."
	kubeconfigGroups = "Groups, which are the certificate's organizations. Default " +
		"`[\"kubeadm:cluster-admins\"]`, the cluster administrators."
	kubeconfigContent  = "The kubeconfig, YAML."
	kubeconfigCA       = "Certificate of the Kubernetes CA, PEM."
	kubeconfigCert     = "The client certificate, PEM."
	kubeconfigKey      = "The client certificate's private key, PEM."
	kubeconfigExpiry   = "Expiry of the client certificate, RFC 3339."
	kubeconfigValidity = "Lifetime of the client certificate, such as `12h`."
)
