package secretscan

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"
)

// planted is a key in all forms in which it could leak.
type planted struct {
	name   string
	key    crypto.Signer
	pem    string
	der    []byte
	public string // its certificate and its public key
}

func plantedKeys(t *testing.T) []planted {
	t.Helper()
	elliptic, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	sec1, err := x509.MarshalECPrivateKey(elliptic)
	if err != nil {
		t.Fatal(err)
	}
	large, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return []planted{
		newPlanted(t, "ECDSA", elliptic, "EC PRIVATE KEY", sec1),
		newPlanted(t, "RSA", large, "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(large)),
	}
}

func newPlanted(t *testing.T, name string, key crypto.Signer, kind string, der []byte) planted {
	t.Helper()
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotAfter: time.Now().Add(time.Hour),
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return planted{
		name: name, key: key, der: der, pem: asPEM(kind, der),
		public: asPEM("CERTIFICATE", certificate) + asPEM("PUBLIC KEY", public),
	}
}

func asPEM(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// forms returns the formats in which programs write keys.
func (p planted) forms(t *testing.T) map[string]string {
	t.Helper()
	pkcs8, err := x509.MarshalPKCS8PrivateKey(p.key)
	if err != nil {
		t.Fatal(err)
	}
	quoted := asJSON(t, p.pem)
	forms := map[string]string{
		"PEM":                      p.pem,
		"PEM of PKCS #8":           asPEM("PRIVATE KEY", pkcs8),
		"one line of PEM":          strings.Split(p.pem, "\n")[1],
		"PEM in JSON":              quoted,
		"PEM in JSON in JSON":      asJSON(t, quoted),
		"DER":                      string(p.der),
		"DER of PKCS #8":           string(pkcs8),
		"DER in hexadecimal":       hex.EncodeToString(p.der),
		"base64 in lines of 76":    wrapped(base64.StdEncoding.EncodeToString(p.der), 76),
		"base64 in lines, escaped": strings.ReplaceAll(wrapped(base64.StdEncoding.EncodeToString(p.der), 60), "\n", `\n`),
	}
	for shift := range 3 {
		before := strings.Repeat("x", shift)
		at := " at " + string(rune('0'+shift))
		forms["base64 of DER"+at] = base64.StdEncoding.EncodeToString([]byte(before + string(p.der) + "y"))
		forms["base64 of PKCS #8 for URLs"+at] = base64.URLEncoding.EncodeToString([]byte(before + string(pkcs8) + "y"))
		forms["base64 of PEM"+at] = base64.StdEncoding.EncodeToString([]byte(before + p.pem))
		forms["base64 of JSON with PEM"+at] = base64.StdEncoding.EncodeToString([]byte(before + quoted))
	}
	return forms
}

func asJSON(t *testing.T, text string) string {
	t.Helper()
	quoted, err := json.Marshal(map[string]string{"key": text})
	if err != nil {
		t.Fatal(err)
	}
	return string(quoted)
}

func wrapped(text string, width int) string {
	var lines []string
	for len(text) > width {
		lines, text = append(lines, text[:width]), text[width:]
	}
	return strings.Join(append(lines, text), "\n")
}

// TestSearch places a key in every form and finds it. The public part of a key is no finding.
// This proves that an empty result of the search is meaningful elsewhere.
func TestSearch(t *testing.T) {
	keys := plantedKeys(t)
	const logPrefix = "2026-01-02T03:04:05Z [TRACE] provider.stdio: "
	for i, key := range keys {
		s := New()
		if n := s.AddPEM("the key", key.pem); n != 1 {
			t.Fatalf("%s: %d private keys found in the PEM", key.name, n)
		}
		for form, text := range key.forms(t) {
			if len(s.In([]byte(logPrefix+text+logPrefix))) == 0 {
				t.Errorf("%s: not found as %s", key.name, form)
			}
		}
		other := keys[(i+1)%len(keys)]
		for shift := range 3 {
			public := logPrefix + key.public + base64.StdEncoding.EncodeToString(
				[]byte(strings.Repeat("x", shift)+key.public)) + other.pem
			if got := s.In([]byte(public)); len(got) > 0 {
				t.Errorf("%s: found where there is only its public key: %v", key.name, got)
			}
		}
	}
	s := New()
	secret := make([]byte, 32)
	rand.Read(secret)
	s.AddBytes("a key of encryption", "bytes", secret)
	if len(s.In([]byte("key: "+base64.StdEncoding.EncodeToString(secret)))) == 0 {
		t.Error("a key of encryption is not found")
	}
}
