package pki

import (
	"bytes"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"time"
)

// commonNames are kubeadm's common names of the authorities.
var commonNames = map[Authority]string{Kubernetes: "kubernetes", Etcd: "etcd-ca", FrontProxy: "front-proxy-ca"}

// heldAuthority is one authority in a bundle.
type heldAuthority struct {
	pair     *KeyPair
	rotation *Rotation[KeyPair]
}

// authority returns the authority of that name.
func (b *Bundle) authority(a Authority) (heldAuthority, error) {
	switch a {
	case Kubernetes:
		return heldAuthority{&b.CA, &b.CARotation}, nil
	case Etcd:
		return heldAuthority{&b.EtcdCA, &b.EtcdCARotation}, nil
	case FrontProxy:
		return heldAuthority{&b.FrontProxyCA, &b.FrontProxyCARotation}, nil
	}
	return heldAuthority{}, fmt.Errorf("unknown authority %q", a)
}

// signing returns the certificate of the issuing authority, without parsing its key.
func (b *Bundle) signing(a Authority) (*x509.Certificate, error) {
	held, err := b.authority(a)
	if err != nil {
		return nil, err
	}
	certificates, err := parseAuthorities(held.pair.Certificate)
	if err != nil {
		return nil, fmt.Errorf("authority %s: %w", a, err)
	}
	return certificates[0], nil
}

// trusted returns the trusted authorities, the older one first.
func (h heldAuthority) trusted() []KeyPair { return byAge(*h.pair, *h.rotation) }

// Anchors returns the certificates (PEM) against which clients and peers are verified: those of
// the issuing authorities alone. The issuers of an intermediate authority are excluded, because
// everything else that they issue would be accepted as well.
func (b *Bundle) Anchors(a Authority) string {
	held, err := b.authority(a)
	if err != nil {
		return ""
	}
	var text strings.Builder
	for _, pair := range held.trusted() {
		text.WriteString(first(pair.Certificate))
	}
	return text.String()
}

// Roots returns Anchors with their issuers, for software that verifies servers only up to a
// self-signed certificate, as OpenSSL does by default.
func (b *Bundle) Roots(a Authority) string {
	held, err := b.authority(a)
	if err != nil {
		return ""
	}
	var text strings.Builder
	for _, pair := range held.trusted() {
		text.WriteString(strings.TrimSpace(pair.Certificate) + "\n")
	}
	return text.String()
}

// Known returns Anchors and what is left of the previous authority, for connections to machines
// that may not have reached the last stage yet.
func (b *Bundle) Known(a Authority) string {
	held, err := b.authority(a)
	if err != nil {
		return ""
	}
	if other := held.rotation.Other; other != nil && held.rotation.Stage() == Steady {
		return first(other.Certificate) + first(held.pair.Certificate)
	}
	return b.Anchors(a)
}

// Withdrawn returns the authorities (PEM) whose introduction was taken back, which kubelets may still trust. Only those
// of the Kubernetes authority are kept.
func (b *Bundle) Withdrawn(a Authority) string {
	held, err := b.authority(a)
	if err != nil {
		return ""
	}
	return held.rotation.Withdrawn
}

// Signing returns the certificate (PEM) of the issuing authority.
func (b *Bundle) Signing(a Authority) string {
	held, err := b.authority(a)
	if err != nil {
		return ""
	}
	return first(held.pair.Certificate)
}

// External reports whether an authority's key is external, so that its certificates are signed
// elsewhere.
func (b *Bundle) External(a Authority) bool {
	held, err := b.authority(a)
	return err == nil && held.pair.PrivateKey == ""
}

// PublicKeys returns the keys (PEM) that verify service-account tokens, the older one first.
func (b *Bundle) PublicKeys() string {
	var text strings.Builder
	for _, pair := range byAge(b.ServiceAccount, b.ServiceAccountRotation) {
		text.WriteString(pair.PublicKey)
	}
	return text.String()
}

// first returns the first certificate of a PEM text, as PEM.
func first(text string) string {
	c, err := firstCertificate(text)
	if err != nil {
		return ""
	}
	return encodePEM("CERTIFICATE", c.Raw)
}

func sameCertificate(a, b string) bool { return first(a) != "" && first(a) == first(b) }

// chain returns what is sent along with a leaf certificate: the path to its authority from the
// previous one, and the authority's issuers if it is an intermediate one. The cross certificate
// comes first: OpenSSL takes the first issuer that matches and does not backtrack, and a peer
// that does not know the previous authority has the new one itself.
func (h heldAuthority) chain(now time.Time) (string, error) {
	certificates, err := parseAuthorities(h.pair.Certificate)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	text.WriteString(h.cross(now))
	for _, c := range certificates {
		if selfSigned := bytes.Equal(c.RawIssuer, c.RawSubject); !selfSigned {
			text.WriteString(encodePEM("CERTIFICATE", c.Raw))
		}
	}
	return text.String(), nil
}

// cross returns the cross certificate of the authority in use, or "".
func (h heldAuthority) cross(now time.Time) string {
	if h.rotation.Stage() == Introduced { // it belongs to the next one
		return ""
	}
	if c, err := firstCertificate(h.rotation.Cross); err != nil || !now.Before(c.NotAfter) {
		return ""
	}
	return h.rotation.Cross
}

// crossSign returns a certificate of the newer authority, signed by the older one and valid as
// long as both. It is empty if the older one cannot sign it: its key is external, it has
// expired, or it may not sign further authorities. In that case only software that has reached
// the first stage accepts certificates of the newer one.
func crossSign(older, newer KeyPair, now time.Time) string {
	parent, key, err := older.authority()
	if err != nil {
		return ""
	}
	subject, err := firstCertificate(newer.Certificate)
	if err != nil {
		return ""
	}
	template := *subject
	template.SerialNumber = nil // a random serial number
	template.AuthorityKeyId, template.SignatureAlgorithm = nil, x509.UnknownSignatureAlgorithm
	if parent.NotAfter.Before(template.NotAfter) {
		template.NotAfter = parent.NotAfter
	}
	if parent.NotBefore.After(template.NotBefore) {
		template.NotBefore = parent.NotBefore
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, parent, subject.PublicKey, key)
	if err != nil {
		return ""
	}
	cross, err := x509.ParseCertificate(der)
	if err != nil || !now.Before(cross.NotAfter) || mayNotSignAuthorities(parent) {
		return ""
	}
	return encodePEM("CERTIFICATE", der)
}

func mayNotSignAuthorities(c *x509.Certificate) bool { return c.MaxPathLen == 0 && c.MaxPathLenZero }

// CertificatesIn returns the blocks (DER) of a PEM text of certificates.
func CertificatesIn(text string) []string {
	var out []string
	for rest := []byte(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return out
		}
		out = append(out, string(block.Bytes))
	}
}

// Loses reports whether a certificate of the PEM text before is not in after.
func Loses(before, after string) bool {
	kept := CertificatesIn(after)
	return slices.ContainsFunc(CertificatesIn(before), func(der string) bool { return !slices.Contains(kept, der) })
}

// Accepts reports whether a chain presented by a server or client, leaf first, verifies against
// roots (PEM) for the given usage at now. It is used to find, before trust is removed, the
// peers that depend on it.
func Accepts(roots string, chain []*x509.Certificate, usage Usage, now time.Time) bool {
	if len(chain) == 0 {
		return false
	}
	trusted, intermediates := x509.NewCertPool(), x509.NewCertPool()
	trusted.AppendCertsFromPEM([]byte(roots))
	for _, c := range chain[1:] {
		intermediates.AddCert(c)
	}
	return !slices.ContainsFunc(usage.extended(), func(u x509.ExtKeyUsage) bool {
		_, err := chain[0].Verify(x509.VerifyOptions{
			Roots: trusted, Intermediates: intermediates, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{u},
		})
		return err != nil
	})
}
