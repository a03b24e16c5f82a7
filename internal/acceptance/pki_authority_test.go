package acceptance

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"
)

// authority is an authority that a user supplies.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	issuers     []*x509.Certificate // the direct issuer first
}

// unlimited lets an authority sign further authorities.
const unlimited = -1

func newRoot(t *testing.T, name string) authority {
	t.Helper()
	return authority{}.sign(t, name, unlimited)
}

// sign creates an authority: a root, or an intermediate that a signs.
func (a authority) sign(t *testing.T, name string, pathLength int) authority {
	t.Helper()
	key := newKey(t)
	template := certificateTemplate(t, pkix.Name{CommonName: name, Organization: []string{"Example"}}, 5*365*24*time.Hour)
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	template.MaxPathLen, template.MaxPathLenZero = pathLength, pathLength == 0
	if a.key == nil {
		return authority{certificate: issued(t, template, template, key, key), key: key}
	}
	return authority{
		certificate: issued(t, template, a.certificate, key, a.key), key: key,
		issuers: append([]*x509.Certificate{a.certificate}, a.issuers...),
	}
}

// client returns a client certificate together with its issuers.
func (a authority) client(t *testing.T, name string, groups ...string) tls.Certificate {
	t.Helper()
	key := newKey(t)
	template := certificateTemplate(t, pkix.Name{CommonName: name, Organization: groups}, time.Hour)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	leaf := issued(t, template, a.certificate, key, a.key)
	pair := tls.Certificate{Certificate: [][]byte{leaf.Raw, a.certificate.Raw}, PrivateKey: key}
	for _, issuer := range a.issuers {
		pair.Certificate = append(pair.Certificate, issuer.Raw)
	}
	return pair
}

// chain returns the certificate, then its issuers.
func (a authority) chain() string {
	text := asPEM("CERTIFICATE", a.certificate.Raw)
	for _, issuer := range a.issuers {
		text += asPEM("CERTIFICATE", issuer.Raw)
	}
	return text
}

func (a authority) privateKey(t *testing.T) string { return keyPEM(t, a.key) }

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func keyPEM(t *testing.T, key *ecdsa.PrivateKey) string {
	t.Helper()
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return asPEM("EC PRIVATE KEY", der)
}

func asPEM(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func certificateTemplate(t *testing.T, subject pkix.Name, validity time.Duration) *x509.Certificate {
	t.Helper()
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 100))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial, Subject: subject, NotBefore: now.Add(-5 * time.Minute), NotAfter: now.Add(validity),
		KeyUsage: x509.KeyUsageDigitalSignature,
	}
}

func issued(t *testing.T, template, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

// certificatesIn returns the certificates of a PEM text, each as DER.
func certificatesIn(text string) []string {
	var all []string
	for rest := []byte(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return all
		}
		if block.Type == "CERTIFICATE" {
			all = append(all, string(block.Bytes))
		}
	}
}

// poolOf returns a pool that trusts only the certificates in PEM texts.
func poolOf(texts ...string) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, text := range texts {
		pool.AppendCertsFromPEM([]byte(text))
	}
	return pool
}
