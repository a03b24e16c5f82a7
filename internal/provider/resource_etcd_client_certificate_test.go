package provider

import (
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// TestEtcdClientCertificate: the certificate is one of the etcd CA, for clients only, and is issued again when it is
// due or the authority is another one.
func TestEtcdClientCertificate(t *testing.T) {
	here, external := bundles(t)
	now := time.Now()
	var m etcdClientModel
	m.User, m.Validity = types.StringValue("prometheus"), types.StringValue("3000h")
	var diags diag.Diagnostics
	m.renew(t.Context(), here, now, &diags)
	if diags.HasError() {
		t.Fatal(diags)
	}
	block, _ := pem.Decode([]byte(m.ClientCertificate.ValueString()))
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(m.CA.ValueString()))
	_, err = certificate.Verify(x509.VerifyOptions{
		Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil || certificate.Subject.CommonName != "prometheus" || len(certificate.ExtKeyUsage) != 1 {
		t.Errorf("the certificate is %v with %v: %v", certificate.Subject, certificate.ExtKeyUsage, err)
	}
	if lasts := certificate.NotAfter.Sub(now).Round(time.Hour); lasts != 3000*time.Hour {
		t.Errorf("it is valid for %s", lasts)
	}
	other := m
	other.CA = types.StringValue(here.Roots(pki.Kubernetes))
	for name, c := range map[string]struct {
		model etcdClientModel
		at    time.Duration
		want  bool
	}{
		"new":                  {m, time.Hour, false},
		"in its last third":    {m, 2100 * time.Hour, true},
		"expired":              {m, 3001 * time.Hour, true},
		"of another authority": {other, time.Hour, true},
	} {
		if got := c.model.stale(t.Context(), here, here, now.Add(c.at)); got != c.want {
			t.Errorf("%s: it is due: %v", name, got)
		}
	}
	m.renew(t.Context(), external, now, &diags)
	if text := wordsOf(diags); !strings.Contains(text, "issue it with that CA") {
		t.Errorf("with a CA whose key is held elsewhere: %q", text)
	}
}
