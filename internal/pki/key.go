package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"github.com/cloudflare/cfssl/csr"
	"github.com/cloudflare/cfssl/helpers"
)

// keyRequest returns cfssl's key request for an algorithm.
func (a Algorithm) keyRequest() (*csr.KeyRequest, error) {
	switch a {
	case ECDSAP256:
		return &csr.KeyRequest{A: "ecdsa", S: 256}, nil
	case ECDSAP384:
		return &csr.KeyRequest{A: "ecdsa", S: 384}, nil
	case RSA2048:
		return &csr.KeyRequest{A: "rsa", S: 2048}, nil
	case RSA3072:
		return &csr.KeyRequest{A: "rsa", S: 3072}, nil
	case RSA4096:
		return &csr.KeyRequest{A: "rsa", S: 4096}, nil
	}
	return nil, fmt.Errorf("unknown key algorithm %q: use one of %s, %s, %s, %s, %s",
		a, ECDSAP256, ECDSAP384, RSA2048, RSA3072, RSA4096)
}

// algorithmOf returns the algorithm of a certificate's key in the format of Algorithm, also for
// sizes that a bundle may not use.
func algorithmOf(c *x509.Certificate) Algorithm {
	switch key := c.PublicKey.(type) {
	case *rsa.PublicKey:
		return Algorithm(fmt.Sprintf("RSA-%d", key.N.BitLen()))
	case *ecdsa.PublicKey:
		return Algorithm("ECDSA-" + strings.ReplaceAll(key.Curve.Params().Name, "-", ""))
	}
	if c.PublicKeyAlgorithm == x509.UnknownPublicKeyAlgorithm {
		return "unknown" // Go would print its number
	}
	return Algorithm(c.PublicKeyAlgorithm.String())
}

func newKey(a Algorithm) (crypto.Signer, error) {
	request, err := a.keyRequest()
	if err != nil {
		return nil, err
	}
	key, err := request.Generate()
	if err != nil {
		return nil, fmt.Errorf("generate %s key: %w", a, err)
	}
	return key.(crypto.Signer), nil // both kinds of key that cfssl generates can sign
}

// encodeKey encodes a private key in the form that kubeadm uses for its kind.
func encodeKey(key crypto.Signer) (string, error) {
	switch key := key.(type) {
	case *rsa.PrivateKey:
		return encodePEM("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key)), nil
	case *ecdsa.PrivateKey:
		der, err := x509.MarshalECPrivateKey(key)
		if err != nil {
			return "", errors.New("encode private key: unsupported curve")
		}
		return encodePEM("EC PRIVATE KEY", der), nil
	}
	return "", errors.New("encode private key: neither RSA nor ECDSA")
}

// parseKey parses PKCS #1, SEC 1 and PKCS #8. Its errors are constant texts, because a parser's
// error may quote a part of the key.
func parseKey(text string) (crypto.Signer, error) {
	if text == "" {
		return nil, errors.New("private key is missing")
	}
	key, err := helpers.ParsePrivateKeyPEM([]byte(text))
	if err != nil {
		return nil, errors.New("private key is not an unencrypted PEM private key")
	}
	switch key := key.(type) {
	case *rsa.PrivateKey:
		if key.N.BitLen() < 2048 {
			return nil, errors.New("private key is an RSA key of less than 2048 bits")
		}
		return key, nil
	case *ecdsa.PrivateKey:
		return key, nil
	}
	return nil, errors.New("private key is neither RSA nor ECDSA")
}

// parsePublicKey parses the single PEM "PUBLIC KEY" of the service accounts.
func parsePublicKey(text string) (crypto.PublicKey, error) {
	if text == "" {
		return nil, errors.New("public key is missing")
	}
	block, _ := pem.Decode([]byte(text))
	if block == nil || block.Type != "PUBLIC KEY" {
		return nil, errors.New(`public key is not a PEM "PUBLIC KEY"`)
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, errors.New("public key cannot be decoded")
	}
	return key, nil
}

// PublicKeysIn returns the public keys (DER) of a PEM text, which may have each of them in either form of openssl.
func PublicKeysIn(text string) ([]string, error) {
	var out []string
	for rest := []byte(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return out, nil
		}
		var key crypto.PublicKey
		var err error
		if block.Type == "RSA PUBLIC KEY" {
			key, err = x509.ParsePKCS1PublicKey(block.Bytes)
		} else {
			key, err = x509.ParsePKIXPublicKey(block.Bytes)
		}
		if err != nil {
			return nil, errors.New("public key cannot be decoded")
		}
		der, err := x509.MarshalPKIXPublicKey(key)
		if err != nil {
			return nil, errors.New("public key cannot be encoded")
		}
		out = append(out, string(der))
	}
}

// samePublicKey compares by value. Every public key type of the standard library has Equal.
func samePublicKey(a, b crypto.PublicKey) bool {
	key, ok := a.(interface{ Equal(crypto.PublicKey) bool })
	return ok && key.Equal(b)
}

func encodePEM(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}
