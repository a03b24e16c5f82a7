package targets

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
)

// TestRedirectedProbe: a redirection is not followed, and a server without TLS shows no certificate.
func TestRedirectedProbe(t *testing.T) {
	ready := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	plain, other := httptest.NewServer(ready), httptest.NewTLSServer(ready)
	defer plain.Close()
	defer other.Close()
	for name, to := range map[string]string{"a plain server": plain.URL, "another server": other.URL} {
		server := httptest.NewTLSServer(http.RedirectHandler(to, http.StatusFound))
		defer server.Close()
		chain, err := get(t.Context(), new(net.Dialer).DialContext, server.URL)
		if err == nil || chain != nil || !strings.Contains(err.Error(), "it answers 302") {
			t.Errorf("redirected to %s: %d certificates, %v", name, len(chain), err)
		}
	}
	if chain, err := get(t.Context(), new(net.Dialer).DialContext, plain.URL); err == nil {
		t.Errorf("without TLS: %d certificates", len(chain))
	}
	if chain, err := get(t.Context(), new(net.Dialer).DialContext, other.URL); err != nil || len(chain) != 1 {
		t.Errorf("ready: %d certificates, %v", len(chain), err)
	}
}

// TestLookup: a name is resolved where the endpoint is probed from. What a machine answers is nothing but addresses.
func TestLookup(t *testing.T) {
	for name, c := range map[string]struct{ getent, want string }{
		"both families": {
			"printf '%s\\n' '10.0.0.53       STREAM ns.example.net' '10.0.0.53 DGRAM' 'fd00::53 STREAM'", "[10.0.0.53 fd00::53]",
		},
		"mapped":         {"echo '::ffff:10.0.0.53 STREAM ns.example.net'", "[10.0.0.53]"},
		"unknown":        {"return 2", "[]"},
		"link-local":     {"printf '%s\\n' 'fe80::53%eth0 STREAM' '10.0.0.53 STREAM'", "[10.0.0.53]"},
		"something else": {"echo 'localhost;reboot STREAM'", "an address"},
		"a million":      {"seq -f '10.0.%g.1 STREAM' 0 255; seq 1000000", "more than 100 addresses"},
	} {
		script := "name=ns.example.net\ngetent() { [ \"$*\" = 'ahosts ns.example.net' ] && " + c.getent + "; }\n" +
			string(resolveScript)
		output, err := exec.Command("bash", "-c", script).Output()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		addresses, err := addressesIn(string(output))
		if got := fmt.Sprint(addresses, err); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	for _, name := range []string{"-s", "ns.example.net; reboot", ""} {
		s := NewObserver(nil, nil).For(endpoint.Registration{Address: "api.example.com", ProbeFrom: "10.0.0.11"})
		if _, err := s.Lookup(t.Context(), name); !errors.Is(err, ErrUnresolved) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestSameCluster: two API servers of a cluster present certificates of one authority. During a rotation, one of two
// presents the certificate that the older authority has given to the newer one. Clusters whose authorities have the
// same root are different ones.
func TestSameCluster(t *testing.T) {
	root, former, next := newAuthority(t, "root"), newAuthority(t, "kubernetes"), newAuthority(t, "kubernetes-2")
	other := newAuthority(t, "kubernetes")
	by := func(signer authority, further ...*x509.Certificate) []*x509.Certificate {
		return append([]*x509.Certificate{newAuthority(t, "kube-apiserver").by(t, signer)}, further...)
	}
	for name, c := range map[string]struct {
		a, b []*x509.Certificate
		want bool
	}{
		"one authority":        {by(former), by(former), true},
		"another one":          {by(former), by(other), false},
		"during a rotation":    {by(former), by(next, next.by(t, former)), true},
		"intermediate":         {by(former, former.by(t, root)), by(former, former.by(t, root)), true},
		"of the same root":     {by(former, former.by(t, root)), by(other, other.by(t, root)), false},
		"nothing is presented": {by(former), nil, false},
	} {
		if sameCluster(c.a, c.b) != c.want || sameCluster(c.b, c.a) != c.want {
			t.Errorf("%s: %t, want %t", name, !c.want, c.want)
		}
	}
}

// authority is a certificate with its key.
type authority struct {
	*x509.Certificate
	key *ecdsa.PrivateKey
}

// newAuthority returns an authority that has signed itself.
func newAuthority(t *testing.T, name string) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := authority{&x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
	}, key}
	a.Certificate = a.by(t, a)
	return a
}

// by returns the certificate with which signer signs the authority.
func (a authority) by(t *testing.T, signer authority) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, a.Certificate, signer.Certificate, a.key.Public(), signer.key)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
