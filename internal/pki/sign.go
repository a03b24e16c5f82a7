package pki

import (
	"crypto"
	"crypto/x509"
	"fmt"
	"time"

	"github.com/cloudflare/cfssl/config"
	"github.com/cloudflare/cfssl/csr"
	"github.com/cloudflare/cfssl/log"
	"github.com/cloudflare/cfssl/signer"
	"github.com/cloudflare/cfssl/signer/local"
)

// cfssl logs every step to the process-wide logger, which belongs to the program and not to a
// library. Everything that it logs as an error it also returns.
func init() { log.Level = log.LevelFatal }

// certificateUsages returns the key usages that all of kubeadm's certificates have, and more.
// Key encipherment matters only for RSA; kubeadm sets it for ECDSA as well.
func certificateUsages(more ...string) []string {
	return append([]string{"digital signature", "key encipherment"}, more...)
}

// signing is one certificate to be signed.
type signing struct {
	request   csr.CertificateRequest
	key       crypto.Signer // of the certificate
	profile   config.SigningProfile
	notBefore time.Time
	notAfter  time.Time
}

// selfSign creates an authority. cfssl's initca cannot be used: it drops the DNS name that
// kubeadm puts into authorities, uses its own clock, and sets CRL signing. cfssl's signer
// without a certificate works, if the names are passed as a copied extension of the request.
func selfSign(commonName string, key crypto.Signer, notBefore, notAfter time.Time) (string, error) {
	s := signing{
		request: csr.CertificateRequest{CN: commonName, Hosts: []string{commonName}},
		key:     key,
		profile: config.SigningProfile{
			Usage:          certificateUsages("cert sign"),
			CAConstraint:   config.CAConstraint{IsCA: true},
			CopyExtensions: true,
		},
		notBefore: notBefore,
		notAfter:  notAfter,
	}
	return s.by(nil, key)
}

// by signs with an authority's certificate and key; without a certificate the
// result is self-signed.
func (s signing) by(authority *x509.Certificate, authorityKey crypto.Signer) (string, error) {
	request, err := csr.Generate(s.key, &s.request)
	if err != nil {
		return "", fmt.Errorf("make certificate request for %s: %w", s.request.CN, err)
	}
	s.profile.Expiry = s.notAfter.Sub(s.notBefore) // required by cfssl; the times of the request take precedence
	policy := &config.Signing{Default: &s.profile}
	// The unknown algorithm lets crypto/x509 choose one for the authority's key, as kubeadm
	// does. cfssl's own choice differs for RSA.
	with, err := local.NewSigner(authorityKey, authority, x509.UnknownSignatureAlgorithm, policy)
	if err != nil {
		return "", fmt.Errorf("prepare to sign certificate of %s: %w", s.request.CN, err)
	}
	certificate, err := with.Sign(signer.SignRequest{
		Request:   string(request),
		NotBefore: s.notBefore,
		NotAfter:  s.notAfter,
	})
	if err != nil {
		return "", fmt.Errorf("sign certificate of %s: %w", s.request.CN, err)
	}
	return string(certificate), nil
}
