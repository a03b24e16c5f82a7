package pki

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// ErrExternal means that an authority cannot issue because its key is external.
var ErrExternal = errors.New("its key is held elsewhere")

// authority parses a pair as a signing authority: its first certificate and the matching key.
func (k KeyPair) authority() (*x509.Certificate, crypto.Signer, error) {
	certificate, err := k.trusted()
	if err != nil {
		return nil, nil, err
	}
	if k.PrivateKey == "" {
		return nil, nil, ErrExternal
	}
	key, err := parseKey(k.PrivateKey)
	return certificate, key, err
}

// trusted parses a pair as an authority whose key may be external. If there is a key, it must
// match.
func (k KeyPair) trusted() (*x509.Certificate, error) {
	if k.PublicKey != "" {
		return nil, errors.New("has a separate public key, which belongs to the service account only")
	}
	certificates, err := parseAuthorities(k.Certificate)
	if err != nil || k.PrivateKey == "" {
		return firstOf(certificates), err
	}
	key, err := parseKey(k.PrivateKey)
	if err != nil {
		return nil, err
	}
	if !samePublicKey(key.Public(), certificates[0].PublicKey) {
		return nil, errors.New("private key does not match the certificate")
	}
	return certificates[0], nil
}

// ValidateAuthority returns why a pair supplied by the user cannot be an authority, or nil. Its
// key may be external.
func ValidateAuthority(k KeyPair) error {
	_, err := k.trusted()
	return err
}

func firstOf(certificates []*x509.Certificate) *x509.Certificate {
	if len(certificates) == 0 {
		return nil
	}
	return certificates[0]
}

// parseTrusted accepts CA certificates and nothing else, because this text is written to
// machines world-readable. pem.Decode skips a damaged block before another one, which may be that of a key.
func parseTrusted(text string) ([]*x509.Certificate, error) {
	errMore := errors.New("certificate holds something else than PEM certificates")
	if strings.Contains(text, "PRIVATE KEY") {
		return nil, errMore
	}
	var certificates []*x509.Certificate
	for rest := []byte(text); len(bytes.TrimSpace(rest)) > 0; {
		var block *pem.Block
		block, rest = pem.Decode(rest)
		if block == nil || block.Type != "CERTIFICATE" {
			return nil, errMore
		}
		c, err := parseCertificate(block)
		if err != nil {
			return nil, err
		}
		if !c.BasicConstraintsValid || !c.IsCA || c.KeyUsage&x509.KeyUsageCertSign == 0 {
			return nil, errors.New("certificate is not one of an authority (CA flag and certificate signing)")
		}
		certificates = append(certificates, c)
	}
	if len(certificates) == 0 {
		return nil, errors.New("certificate is missing")
	}
	return certificates, nil
}

// parseAuthorities parses the certificate of an authority, followed by its issuers.
func parseAuthorities(text string) ([]*x509.Certificate, error) {
	certificates, err := parseTrusted(text)
	if err != nil {
		return nil, err
	}
	for i, issuer := range certificates[1:] {
		if c := certificates[i]; c.CheckSignatureFrom(issuer) != nil {
			return nil, fmt.Errorf("certificate %q is not followed by its issuer, but by %q", c.Subject.CommonName,
				issuer.Subject.CommonName)
		}
	}
	return certificates, nil
}

// serviceAccount parses a pair as the keys that verify and, if signs is set, sign
// service-account tokens.
func (k KeyPair) serviceAccount(signs bool) (crypto.PublicKey, error) {
	if k.Certificate != "" {
		return nil, errors.New("has a certificate, but is only a key")
	}
	public, err := parsePublicKey(k.PublicKey)
	if err != nil || !signs {
		return public, err
	}
	key, err := parseKey(k.PrivateKey)
	if err != nil {
		return nil, err
	}
	if !samePublicKey(key.Public(), public) {
		return nil, errors.New("private key does not match the public key")
	}
	return public, nil
}
