package client

import (
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// TestClientCertificate verifies that, if the etcd authority's key is external, a member and a replica
// use the certificates that were signed for them, and that there is no client without a
// certificate.
func TestClientCertificate(t *testing.T) {
	b, err := pki.Generate(pki.Options{ClusterName: "prod", Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	member, replica := pki.EtcdHealthcheckClient(), pki.APIServerEtcdClient()
	pairs := map[string]pki.KeyPair{}
	for _, leaf := range []pki.Leaf{member, replica} {
		if pairs[leaf.Name], err = b.Issue(leaf, time.Now(), 0); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := TLS(b, time.Now()); err != nil {
		t.Errorf("with the key: %v", err)
	}
	b.EtcdCA.PrivateKey = ""
	if _, err := TLS(b, time.Now()); err == nil {
		t.Error("nothing was signed, and yet there is a certificate")
	}
	for _, c := range []struct {
		signed []string
		want   string
	}{
		{[]string{member.Name}, member.CommonName},
		{[]string{replica.Name}, replica.CommonName},
		{[]string{member.Name, replica.Name}, member.CommonName},
	} {
		b.Signed = map[string]pki.KeyPair{}
		for _, name := range c.signed {
			b.Signed[name] = pairs[name]
		}
		config, err := TLS(b, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if got := config.Certificates[0].Leaf.Subject.CommonName; got != c.want {
			t.Errorf("signed %q: asks as %q, want %q", c.signed, got, c.want)
		}
	}
}
