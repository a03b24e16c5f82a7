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

// String says how, without the key.
func (e Encryption) String() string { return fmt.Sprintf("Encryption(%s %s)", e.Kind, e.Name) }

// GoString is String, so that %#v prints no key either.
func (e Encryption) GoString() string { return e.String() }

// Format answers every verb with String: the others print fields.
func (e Encryption) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, e.String()) }

// MarshalJSON gives String to structured loggers. Encode writes keys.
func (e Encryption) MarshalJSON() ([]byte, error) { return json.Marshal(e.String()) }

// String says to whom it seals.
func (s *Seal) String() string { return fmt.Sprintf("Seal(%v)", s.Recipients()) }

// GoString is String, so that %#v prints no identity either.
func (s *Seal) GoString() string { return s.String() }

// Format answers every verb with String: the others print fields.
func (s *Seal) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, s.String()) }

// MarshalJSON gives String to structured loggers.
func (s *Seal) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }
