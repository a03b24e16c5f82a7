package provider

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

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
	m.ClientCertificate = types.StringNull()
	m.renew(t.Context(), external, now, &diags)
	if text := wordsOf(diags); !strings.Contains(text, "issue it with that CA") {
		t.Errorf("with a CA whose key is held elsewhere: %q", text)
	}
}

// TestEtcdClientCertificateOfExternalCA: a certificate stays while only a signer could issue another one, and its CAs
// are those of the rotation. A new one is refused in the plan.
func TestEtcdClientCertificateOfExternalCA(t *testing.T) {
	here, external := bundles(t)
	introduced := rotated(t, external, 1)
	adopted := rotated(t, introduced, 2)
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	seal, err := pki.NewSeal([]string{identity.String()}, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	text := func(b *pki.Bundle) any { return bundleText(t, b).ValueString() }
	l := credentialLifecycle{t: t, resource: newEtcdClientResource().(plannedResource)}
	var described resource.SchemaResponse
	l.resource.Schema(t.Context(), resource.SchemaRequest{}, &described)
	l.schema = described.Schema
	l.as(seal)
	all := []string{"id", "ca_certificate", "client_certificate", "client_key"}
	nothing, config := l.value(nil), map[string]any{"user": "prometheus", "validity": "100h", "pki": text(here)}
	for _, name := range append([]string{"sealed_for", "expires_at"}, all...) {
		config[name] = tftypes.UnknownValue
	}
	first := l.apply(nothing, l.plan(nothing, l.value(config)).Plan.Raw)
	state := first
	for _, c := range []struct {
		bundle  *pki.Bundle
		differs string // from the state before
	}{
		{external, ""},
		{introduced, "ca_certificate client_key"}, // the key is sealed again
		{introduced, ""},
		{adopted, "id client_certificate client_key"},
	} {
		after := l.apply(state, l.plan(state, l.changed(state, map[string]any{"pki": text(c.bundle)})).Plan.Raw)
		if got := l.differing(state, after, all...); got != c.differs {
			t.Errorf("at stage %d, %q differ, want %q", c.bundle.Generation(pki.EtcdPart), got, c.differs)
		}
		state = after
		var m etcdClientModel
		diags := (tfsdk.State{Schema: l.schema, Raw: state}).Get(t.Context(), &m)
		key, err := seal.Open(m.ClientKey.ValueString())
		if err == nil {
			_, err = tls.X509KeyPair([]byte(m.ClientCertificate.ValueString()), []byte(key))
		}
		if diags.HasError() || err != nil || m.CA.ValueString() != c.bundle.Roots(pki.Etcd) {
			t.Errorf("at stage %d: %v, %v", c.bundle.Generation(pki.EtcdPart), err, diags)
		}
	}
	for name, c := range map[string]struct {
		state, values tftypes.Value
	}{
		"new": {nothing, l.value(with(config, map[string]any{"pki": text(external)}))},
		"new at stage 1": {
			nothing, l.value(with(config, map[string]any{"pki": text(introduced)})),
		},
		"of another CA": {state, l.changed(state, map[string]any{"pki": text(external)})},
	} {
		req := resource.ModifyPlanRequest{
			State: tfsdk.State{Schema: l.schema, Raw: c.state}, Plan: tfsdk.Plan{Schema: l.schema, Raw: c.values},
			Config: tfsdk.Config{Schema: l.schema, Raw: c.values},
		}
		resp := resource.ModifyPlanResponse{Plan: req.Plan}
		l.resource.ModifyPlan(t.Context(), req, &resp)
		if output := wordsOf(resp.Diagnostics); !strings.Contains(output, "issue it with that CA") {
			t.Errorf("%s: %q", name, output)
		}
	}
}
