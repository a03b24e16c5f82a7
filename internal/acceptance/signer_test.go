package acceptance

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// signer has the keys that the provider never gets, like Vault.
type signer struct {
	bundle *pki.Bundle
	file   string // of the signed certificates: {"NAME": "PEM", …}, which configurations read
}

func newSigner(t *testing.T) *signer {
	t.Helper()
	bundle, err := pki.Generate(pki.Options{ClusterName: "signer", Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	s := &signer{bundle: bundle, file: filepath.Join(t.TempDir(), "signed.json")}
	if err := s.write(map[string]string{}); err != nil {
		t.Fatal(err)
	}
	return s
}

// authorities returns the bundle's arguments: certificates alone.
func (s *signer) authorities() string {
	return s.arguments(func(pki.KeyPair) string { return "key_held_elsewhere = true" })
}

// keyedAuthorities returns the bundle's arguments: certificates with their keys.
func (s *signer) keyedAuthorities() string {
	return s.arguments(func(k pki.KeyPair) string { return fmt.Sprintf("private_key = %q", k.PrivateKey) })
}

func (s *signer) arguments(key func(pki.KeyPair) string) string {
	text := ""
	for attribute, pair := range s.pairs() {
		text += fmt.Sprintf("%s = {\ncertificate = %q\n%s\n}\n", attribute, pair.Certificate, key(pair))
	}
	return text
}

func (s *signer) pairs() map[string]pki.KeyPair {
	return map[string]pki.KeyPair{"ca": s.bundle.CA, "etcd_ca": s.bundle.EtcdCA, "front_proxy_ca": s.bundle.FrontProxyCA}
}

// request is one element of the attribute requests.
type request struct {
	Request   string   `json:"request"`
	Authority string   `json:"authority"`
	Usages    []string `json:"usages"`
}

// sign signs requests with a validity and writes the certificates to the file.
func (s *signer) sign(requests map[string]request, life time.Duration) error {
	certificates := map[string]string{}
	for name, r := range requests {
		certificate, err := s.signOne(r, life)
		if err != nil {
			return fmt.Errorf("sign %s: %w", name, err)
		}
		certificates[name] = certificate
	}
	return s.write(certificates)
}

func (s *signer) write(certificates map[string]string) error {
	text, err := json.Marshal(certificates)
	if err != nil {
		return err
	}
	return os.WriteFile(s.file, text, 0o600)
}

func (s *signer) signOne(r request, life time.Duration) (string, error) {
	block, _ := pem.Decode([]byte(r.Request))
	if block == nil {
		return "", fmt.Errorf("%q is no request", r.Request)
	}
	wanted, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return "", err
	}
	pair := map[string]pki.KeyPair{
		"kubernetes": s.bundle.CA, "etcd": s.bundle.EtcdCA,
		"front-proxy": s.bundle.FrontProxyCA,
	}[r.Authority]
	authority, key, err := parsePair(pair)
	if err != nil {
		return "", err
	}
	template := &x509.Certificate{
		Subject: wanted.Subject, DNSNames: wanted.DNSNames, IPAddresses: wanted.IPAddresses,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage: usages(r.Usages),
		NotBefore:   time.Now().Add(-time.Minute), NotAfter: time.Now().Add(life),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, authority, wanted.PublicKey, key)
	if err != nil {
		return "", err
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), nil
}

func usages(names []string) (out []x509.ExtKeyUsage) {
	for name, usage := range map[string]x509.ExtKeyUsage{
		"server auth": x509.ExtKeyUsageServerAuth,
		"client auth": x509.ExtKeyUsageClientAuth,
	} {
		if slices.Contains(names, name) {
			out = append(out, usage)
		}
	}
	return out
}

func parsePair(pair pki.KeyPair) (*x509.Certificate, crypto.PrivateKey, error) {
	block, _ := pem.Decode([]byte(pair.Certificate))
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, nil, err
	}
	block, _ = pem.Decode([]byte(pair.PrivateKey))
	key, err := x509.ParseECPrivateKey(block.Bytes)
	return certificate, key, err
}
