package pki

import (
	"encoding/json"
	"fmt"
	"io"
)

// String describes the pair without its private key.
func (k KeyPair) String() string {
	switch c, err := firstCertificate(k.Certificate); {
	case err == nil:
		return fmt.Sprintf("KeyPair(%s, sha256 %s)", c.Subject.CommonName, fingerprint(c))
	case k.PublicKey != "":
		return "KeyPair(public key)"
	}
	return "KeyPair(no certificate)"
}

// GoString returns String, so that %#v does not print the key.
func (k KeyPair) GoString() string { return k.String() }

// Format prints String for every verb; other verbs would print fields.
func (k KeyPair) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, k.String()) }

// MarshalJSON returns String for structured loggers. Encode writes keys.
func (k KeyPair) MarshalJSON() ([]byte, error) { return json.Marshal(k.String()) }

// String returns the cluster of the bundle, without private keys.
func (b *Bundle) String() string {
	return fmt.Sprintf("Bundle(%s, id %s, %s)", b.ClusterName, b.ClusterID, b.Algorithm)
}

// GoString returns String, so that %#v does not print keys.
func (b *Bundle) GoString() string { return b.String() }

// Format prints String for every verb; other verbs would print fields.
func (b *Bundle) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, b.String()) }

// String describes the user and the server, without the secrets.
func (a Access) String() string {
	return fmt.Sprintf("Access(%s at %s as %s)", a.Cluster, a.Server, a.User)
}

// GoString returns String, so that %#v does not print secrets.
func (a Access) GoString() string { return a.String() }

// Format prints String for every verb; other verbs would print fields.
func (a Access) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, a.String()) }

// MarshalJSON returns String for structured loggers.
func (a Access) MarshalJSON() ([]byte, error) { return json.Marshal(a.String()) }

// String describes the encryption without the key.
func (e Encryption) String() string { return fmt.Sprintf("Encryption(%s %s)", e.Kind, e.Name) }

// GoString returns String, so that %#v does not print the key.
func (e Encryption) GoString() string { return e.String() }

// Format prints String for every verb; other verbs would print fields.
func (e Encryption) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, e.String()) }

// MarshalJSON returns String for structured loggers. Encode writes keys.
func (e Encryption) MarshalJSON() ([]byte, error) { return json.Marshal(e.String()) }

// String returns the recipients.
func (s *Seal) String() string { return fmt.Sprintf("Seal(%v)", s.Recipients()) }

// GoString returns String, so that %#v does not print identities.
func (s *Seal) GoString() string { return s.String() }

// Format prints String for every verb; other verbs would print fields.
func (s *Seal) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, s.String()) }

// MarshalJSON returns String for structured loggers.
func (s *Seal) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }
