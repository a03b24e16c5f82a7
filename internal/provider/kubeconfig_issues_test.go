package provider

import (
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// TestKubeconfigIssues: a kubeconfig that is valid needs no signed certificate when the key of its CA goes to a signer.
func TestKubeconfigIssues(t *testing.T) {
	here, elsewhere := bundles(t)
	elsewhere.CA.PrivateKey = ""
	pair := signElsewhere(t, here, []pki.Leaf{pki.User("ann", "team")})[pki.User("ann", "team").Name]
	valid := kubeconfigResourceModel{Signed: types.ObjectNull(signedTypes)}
	valid.Early = types.StringValue("1h")
	valid.User, valid.Groups = types.StringValue("ann"), stringSet([]string{"team"})
	valid.ClientCertificate = types.StringValue(pair.Certificate)
	valid.CACertificate = types.StringValue(here.Roots(pki.Kubernetes))
	renamed, signed, other := *elsewhere, valid, valid
	renamed.ClusterName = "other"
	signed.Signed = signedValue(t, map[string]pki.KeyPair{"ann": pair})
	other.User = types.StringValue("bob")
	for name, c := range map[string]struct {
		model         kubeconfigResourceModel
		prior, bundle *pki.Bundle
		now           time.Time
		want          bool
	}{
		"valid":                     {valid, here, elsewhere, time.Now(), false},
		"new":                       {valid, nil, elsewhere, time.Now(), true},
		"the bundle is not known":   {valid, here, nil, time.Now(), true},
		"signed":                    {signed, here, elsewhere, time.Now(), true},
		"renamed":                   {valid, here, &renamed, time.Now(), true},
		"another user":              {other, here, elsewhere, time.Now(), true},
		"expired":                   {valid, here, elsewhere, time.Now().Add(20 * 365 * 24 * time.Hour), true},
		"the key is in the bundle":  {valid, here, here, time.Now(), false},
		"renewed by the bundle now": {valid, here, here, time.Now().Add(363 * 24 * time.Hour * 10), true},
	} {
		var r kubeconfigResource
		r.now = func() time.Time { return c.now }
		if got := r.issues(t.Context(), &c.model, c.prior, c.bundle); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}
