package pki

import (
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cloudflare/cfssl/csr"
)

// Request generates a key and a certificate request (PEM) for a leaf, for a signer that has the
// authority's key. The signer may change names and usages: Check reports afterwards whether the
// signed certificate can be used.
func (b *Bundle) Request(l Leaf) (request string, key string, err error) {
	names, err := l.validate()
	if err != nil {
		return "", "", fmt.Errorf("request %s certificate: %w", l.Name, err)
	}
	private, err := newKey(b.Algorithm)
	if err != nil {
		return "", "", fmt.Errorf("request %s certificate: %w", l.Name, err)
	}
	wanted := l.request(names)
	text, err := csr.Generate(private, &wanted)
	if err != nil {
		return "", "", fmt.Errorf("request %s certificate: %w", l.Name, err)
	}
	key, err = encodeKey(private)
	return string(text), key, err
}

// Names returns the host names and addresses of a leaf as they appear in its certificate:
// canonical, sorted and without duplicates.
func (l Leaf) Names() (dnsNames, addresses []string, err error) {
	names, err := l.validate()
	if err != nil {
		return nil, nil, fmt.Errorf("names of %s certificate: %w", l.Name, err)
	}
	return names.dns, names.addresses, nil
}

// SignedPair combines the key of a request with the certificates that were signed for it (PEM:
// the leaf, then its intermediates). It rejects everything except certificates, because the
// text is written to machines world-readable.
func SignedPair(certificates, privateKey string) (KeyPair, error) {
	leaf, err := firstCertificate(certificates)
	if err != nil {
		return KeyPair{}, err
	}
	var text strings.Builder
	for rest := []byte(certificates); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return KeyPair{}, fmt.Errorf("it holds %s beside certificates", pemKind(block.Type))
		}
		if _, err := parseCertificate(block); err != nil {
			return KeyPair{}, err
		}
		text.WriteString(encodePEM("CERTIFICATE", block.Bytes))
	}
	key, err := parseKey(privateKey)
	if err != nil {
		return KeyPair{}, err
	}
	if !samePublicKey(key.Public(), leaf.PublicKey) {
		return KeyPair{}, errors.New("the certificate that was signed is not for the key of its request")
	}
	return KeyPair{Certificate: text.String(), PrivateKey: privateKey}, nil
}

// AddSigned adds what was signed externally for a leaf (see SignedPair). The cross certificate of the authority follows
// the leaf, as in what Issue signs itself, and before the signer's intermediates (see chain).
func (b *Bundle) AddSigned(l Leaf, certificates, privateKey string, now time.Time) error {
	pair, err := SignedPair(certificates, privateKey)
	if err != nil {
		return err
	}
	held, err := b.authority(l.Authority)
	if err != nil {
		return err
	}
	leaf := first(pair.Certificate)
	others := strings.TrimPrefix(pair.Certificate, leaf)
	if known := first(held.rotation.Cross); known != "" {
		others = strings.ReplaceAll(others, known, "")
	}
	pair.Certificate = leaf + held.cross(now) + others
	if b.Signed == nil {
		b.Signed = map[string]KeyPair{}
	}
	b.Signed[l.Name] = pair
	return nil
}
