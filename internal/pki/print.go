package pki

import (
	"encoding/json"
	"fmt"
	"io"
)

// String says what the pair is, without its private key.
func (k KeyPair) String() string {
	switch c, err := firstCertificate(k.Certificate); {
	case err == nil:
		return fmt.Sprintf("KeyPair(%s, sha256 %s)", c.Subject.CommonName, fingerprint(c))
	case k.PublicKey != "":
		return "KeyPair(public key)"
	}
	return "KeyPair(no certificate)"
}

// GoString is String, so that %#v prints no key either.
func (k KeyPair) GoString() string { return k.String() }

// Format answers every verb with String: the others print fields.
func (k KeyPair) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, k.String()) }

// MarshalJSON gives String to structured loggers. Encode writes keys.
func (k KeyPair) MarshalJSON() ([]byte, error) { return json.Marshal(k.String()) }

// String says which cluster the bundle is of, without private keys.
func (b *Bundle) String() string {
	return fmt.Sprintf("Bundle(%s, id %s, %s)", b.ClusterName, b.ClusterID, b.Algorithm)
}

// GoString is String, so that %#v prints no key either.
func (b *Bundle) GoString() string { return b.String() }

// Format answers every verb with String: the others print fields.
func (b *Bundle) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, b.String()) }

// String says who reaches what, without the secrets.
func (a Access) String() string {
	return fmt.Sprintf("Access(%s at %s as %s)", a.Cluster, a.Server, a.User)
}

// GoString is String, so that %#v prints no secret either.
func (a Access) GoString() string { return a.String() }

// Format answers every verb with String: the others print fields.
func (a Access) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, a.String()) }

// MarshalJSON gives String to structured loggers.
func (a Access) MarshalJSON() ([]byte, error) { return json.Marshal(a.String()) }
