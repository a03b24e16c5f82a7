package provider

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/nodebootstrap"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// bootstrapTokenModel has the attributes that the managed and the ephemeral token share.
type bootstrapTokenModel struct {
	PKI          types.String `tfsdk:"pki"`
	Endpoint     types.Object `tfsdk:"endpoint"`
	Description  types.String `tfsdk:"description"`
	Validity     types.String `tfsdk:"validity"`
	NeverExpires types.Bool   `tfsdk:"never_expires"`

	TokenID       types.String `tfsdk:"token_id"`
	Token         types.String `tfsdk:"token"`
	JoinCommand   types.String `tfsdk:"join_command"`
	DiscoveryFile types.String `tfsdk:"discovery_file"`
	Hashes        types.List   `tfsdk:"ca_cert_hashes"`
	ExpiresAt     types.String `tfsdk:"expires_at"`
}

const (
	tokenKind = "kube_bootstrap_token"
	// tokenTime limits creating, reading or revoking a token.
	tokenTime = 2 * time.Minute
	// tokenLife is the validity if none is set.
	tokenLife        = time.Hour
	tokenDescription = "Created by terraform-provider-kube for kubeadm join."
)

const (
	tokenPKI = "The `bundle` of the cluster's `kube_pki_bundle`, which issues a short-lived client certificate for the " +
		"API server, and whose Kubernetes CA is pinned in the join command."
	tokenEndpoint = "workers connect to its address, and the token is created through one of the replicas that it " +
		"lists. A change of its address changes the join command"
	tokenDescribed = "Text for people in the token's Secret. Default: `" + tokenDescription + "`"
	tokenValidity  = "How long the token is valid, such as `30m`. After that, kube-controller-manager deletes it. " +
		"Workers that have joined stay. Default `1h`"
	tokenForever = "Whether the token never expires. Whoever reads such a token can add machines to the cluster until " +
		"it is revoked. Default `false`; not together with `validity`"
	tokenIDText  = "ID of the token, which is not secret: its Secret is `bootstrap-token-ID` in `kube-system`."
	tokenText    = "The token: its ID, a dot and its secret."
	tokenCommand = "The command that makes a machine with kubelet, kubeadm and a container runtime a worker. It " +
		"contains the token."
	tokenFile = "A kubeconfig with the endpoint, the Kubernetes CAs and the token, for `kubeadm join --discovery-file " +
		"FILE` without another argument. It works where API servers refuse requests without credentials. On the " +
		"machine, give it mode 0600 and delete it after the join."
	tokenExpiring = "When the token expires, RFC 3339; null if never."
)

// create creates a token and sets the computed values. standard settings are those of the model.
func (m *bootstrapTokenModel) create(
	ctx context.Context, s *session, bundle *pki.Bundle, now time.Time, diags *diag.Diagnostics,
) {
	validity, _ := parseDuration(m.Validity)
	if validity == 0 {
		validity = tokenLife
	}
	var expires time.Time
	if !m.NeverExpires.ValueBool() {
		expires = now.Add(validity).Truncate(time.Second)
	}
	description := tokenDescription
	if !m.Description.IsNull() {
		description = m.Description.ValueString()
	}
	registration := decodeEndpoint(ctx, m.Endpoint, bundle, diags)
	m.Hashes = hashesOf(bundle, diags)
	if diags.HasError() {
		return
	}
	token, err := s.replicas.CreateToken(ctx, bundle, s.registrars.For(registration), expires, description)
	if err != nil {
		addError(diags, path.Root("endpoint"), "Bootstrap token not created", err)
		return
	}
	m.TokenID, m.Token, m.ExpiresAt = types.StringValue(token.ID), types.StringValue(token.Text()), timeString(expires)
	m.renderJoin(ctx, bundle, token.Text(), diags)
}

// renderJoin sets the join command and the discovery file of a token, at the endpoint and with the CAs of now.
func (m *bootstrapTokenModel) renderJoin(
	ctx context.Context, bundle *pki.Bundle, token string, diags *diag.Diagnostics,
) {
	registration := decodeEndpoint(ctx, m.Endpoint, bundle, diags)
	at := nodebootstrap.Settings{Bundle: bundle, Host: registration.Address, Port: registration.Port}
	command := nodebootstrap.JoinCommand(at.Endpoint(), token, stringsOf(ctx, m.Hashes, diags))
	m.JoinCommand, m.DiscoveryFile = types.StringValue(command), types.StringValue(at.DiscoveryFileOf(token))
}
