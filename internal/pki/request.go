package pki

import (
	"fmt"

	"github.com/cloudflare/cfssl/csr"
)

// Request makes a key and a certificate request (PEM) for a leaf, for a signer
// that holds the authority's key. It does not keep to the request's names and
// usages by itself: Check says afterwards whether what it signed can be used.
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
