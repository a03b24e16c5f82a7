package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
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
	if _, err := TLS(b, time.Now); err != nil {
		t.Errorf("with the key: %v", err)
	}
	b.EtcdCA.PrivateKey = ""
	if _, err := TLS(b, time.Now); err == nil {
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
		config, err := TLS(b, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		certificate, err := config.GetClientCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := certificate.Leaf.Subject.CommonName; got != c.want {
			t.Errorf("signed %q: asks as %q, want %q", c.signed, got, c.want)
		}
	}
}

// TestClientCertificateIsRenewed: an operation may take longer than the life of the certificate that it began with.
// Connections that it opens later have another one. One that was signed externally cannot be issued again.
func TestClientCertificateIsRenewed(t *testing.T) {
	begin := time.Now()
	b, err := pki.Generate(pki.Options{ClusterName: "prod", Now: begin})
	if err != nil {
		t.Fatal(err)
	}
	external := *b
	leaf := pki.EtcdHealthcheckClient()
	pair, err := b.Issue(leaf, begin, 3*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	external.EtcdCA.PrivateKey, external.Signed = "", map[string]pki.KeyPair{leaf.Name: pair}
	for name, c := range map[string]struct {
		bundle *pki.Bundle
		after  []time.Duration // of the handshakes
		issued int             // certificates
		fails  bool            // at the last handshake
	}{
		"early":                  {b, []time.Duration{0, 29 * time.Minute}, 1, false},
		"half of the life":       {b, []time.Duration{0, 30 * time.Minute}, 2, false},
		"after the first hour":   {b, []time.Duration{0, 2 * time.Hour, 150 * time.Minute}, 3, false},
		"signed externally":      {&external, []time.Duration{0, 2 * time.Hour, 170 * time.Minute}, 1, false},
		"the signed one expired": {&external, []time.Duration{0, 181 * time.Minute}, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			now := begin
			seen := map[string]bool{}
			member := serveTLS(t, b, func() time.Time { return now }, func(c *x509.Certificate) {
				seen[c.SerialNumber.String()] = true
			})
			config, err := TLS(c.bundle, func() time.Time { return now })
			if err != nil {
				t.Fatal(err)
			}
			clients := New(config, func(ctx context.Context, _ string) (net.Conn, error) {
				var d net.Dialer
				return d.DialContext(ctx, "tcp", member)
			})
			defer clients.Close()
			for i, after := range c.after {
				now = begin.Add(after)
				_, err := clients.GetHTTP(t.Context(), "127.0.0.1", "/version", 100)
				if fails := c.fails && i == len(c.after)-1; (err != nil) != fails {
					t.Errorf("after %s: %v", after, err)
				}
			}
			if len(seen) != c.issued {
				t.Errorf("%d certificates were presented, want %d", len(seen), c.issued)
			}
		})
	}
}

// serveTLS serves at an address with the certificate of a member, as etcd does, and calls see with the certificate of
// each client that it accepts.
func serveTLS(t *testing.T, b *pki.Bundle, now func() time.Time, see func(*x509.Certificate)) (address string) {
	t.Helper()
	pair, err := b.Issue(pki.EtcdServer("cp1", "127.0.0.1"), now(), 0)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.X509KeyPair([]byte(pair.Certificate), []byte(pair.PrivateKey))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(b.Known(pki.Etcd)))
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		see(r.TLS.PeerCertificates[0])
	}))
	server.TLS = &tls.Config{
		Certificates: []tls.Certificate{certificate}, ClientCAs: roots, ClientAuth: tls.RequireAndVerifyClientCert,
		Time: now, MinVersion: tls.VersionTLS12,
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}
