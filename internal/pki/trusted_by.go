package pki

import (
	"crypto/x509"
	"time"
)

// Trust is what a running process trusts of an authority in its rotation, and what it presents.
type Trust struct {
	Generation  int    // of the files that it runs with
	Roots       string // PEM: the authorities that it accepts
	Certificate string // PEM: the certificate that it presents, leaf first; "": none
}

// TrustedBy reports whether a process with these roots (PEM) accepts the certificates that the bundle issues now: the
// roots include the issuing authority, or the one that has signed the cross certificate that is sent along.
func (b *Bundle) TrustedBy(a Authority, roots string, now time.Time) bool {
	held, err := b.authority(a)
	if err != nil {
		return false
	}
	issuing, err := firstCertificate(held.pair.Certificate)
	if err != nil {
		return false
	}
	cross, err := firstCertificate(held.cross(now))
	for _, der := range CertificatesIn(roots) {
		if der == string(issuing.Raw) {
			return true
		}
		if err != nil {
			continue
		}
		root, unreadable := x509.ParseCertificate([]byte(der))
		if unreadable == nil && cross.CheckSignatureFrom(root) == nil {
			return true
		}
	}
	return false
}

// Issues reports whether a certificate (PEM) is of the authority that issues now.
func (b *Bundle) Issues(a Authority, certificate string) bool {
	authority, err := b.signing(a)
	if err != nil {
		return false
	}
	leaf, err := firstCertificate(certificate)
	return err == nil && len(authorityProblems(leaf, authority, leaf.NotBefore)) == 0
}
