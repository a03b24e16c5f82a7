package pki

import (
	"crypto/x509"
	"strings"
	"sync"
	"testing"
	"time"
)

// now is the current time of every test that does not run kubeadm.
var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// sharedBundle is generated once, because keys are the slow part of these tests. Tests that
// change a bundle change a copy.
var sharedBundle = sync.OnceValues(func() (*Bundle, error) {
	return Generate(Options{ClusterName: "prod", Now: now})
})

func bundle(t testing.TB) Bundle {
	t.Helper()
	b, err := sharedBundle()
	if err != nil {
		t.Fatal(err)
	}
	return *b
}

func issue(t testing.TB, b Bundle, l Leaf, at time.Time, validity time.Duration) KeyPair {
	t.Helper()
	pair, err := b.Issue(l, at, validity)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

func mustInspect(t testing.TB, certificate string) Info {
	t.Helper()
	info, err := Inspect(certificate)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// wantError checks that an error contains the words and nothing secret.
func wantError(t *testing.T, err error, wantErr string, secrets ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %q", wantErr)
	}
	if !strings.Contains(err.Error(), wantErr) {
		t.Errorf("error %q does not say %q", err, wantErr)
	}
	wantNoSecret(t, err.Error(), secrets...)
}

// wantNoSecret searches for the lines of PEM keys, so that a part is detected too. It does not
// print the text, because that could reveal a secret.
func wantNoSecret(t *testing.T, text string, secrets ...string) {
	t.Helper()
	if i := strings.Index(text, "PRIVATE KEY"); i >= 0 {
		t.Errorf("a private key's PEM header at byte %d", i)
	}
	for _, secret := range secrets {
		for line := range strings.Lines(secret) {
			if line = strings.TrimSpace(line); len(line) > 20 && strings.Contains(text, line[:20]) {
				t.Errorf("a part of a key at byte %d", strings.Index(text, line[:20]))
			}
		}
	}
}

func relabel(pem, kind string) string {
	return strings.NewReplacer("EC PRIVATE KEY", kind).Replace(pem)
}

func publicKey(t testing.TB, authority KeyPair) string {
	t.Helper()
	c, err := firstCertificate(authority.Certificate)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(c.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	return encodePEM("PUBLIC KEY", der)
}

func pkcs8(t testing.TB, key string) string {
	t.Helper()
	private, err := parseKey(key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return encodePEM("PRIVATE KEY", der)
}

// encode returns a bundle in plain text.
func encode(t testing.TB, b *Bundle) string {
	t.Helper()
	text, err := b.Encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
