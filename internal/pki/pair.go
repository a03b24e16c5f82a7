package pki

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
)

// authority reads a pair as a signing authority: its first certificate and the
// matching key.
func (k KeyPair) authority() (*x509.Certificate, crypto.Signer, error) {
	if k.PublicKey != "" {
		return nil, nil, errors.New("has a separate public key, which belongs to the service account only")
	}
	certificates, err := parseAuthorities(k.Certificate)
	if err != nil {
		return nil, nil, err
	}
	key, err := parseKey(k.PrivateKey)
	if err != nil {
		return nil, nil, err
	}
	if !samePublicKey(key.Public(), certificates[0].PublicKey) {
		return nil, nil, errors.New("private key does not match the certificate")
	}
	return certificates[0], key, nil
}

// parseAuthorities reads certificates of authorities and nothing else: this
// text is written to machines world-readable.
func parseAuthorities(text string) ([]*x509.Certificate, error) {
	var certificates []*x509.Certificate
	for rest := []byte(text); len(bytes.TrimSpace(rest)) > 0; {
		var block *pem.Block
		block, rest = pem.Decode(rest)
		if block == nil || block.Type != "CERTIFICATE" {
			return nil, errors.New("certificate holds something else than PEM certificates")
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

// serviceAccount reads a pair as the keys that sign service-account tokens.
func (k KeyPair) serviceAccount() (crypto.PublicKey, error) {
	if k.Certificate != "" {
		return nil, errors.New("has a certificate, but is only a key")
	}
	public, err := parsePublicKey(k.PublicKey)
	if err != nil {
		return nil, err
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
