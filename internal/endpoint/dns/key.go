package dns

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	miekg "github.com/miekg/dns"
)

// Key signs requests and answers (TSIG, RFC 8945).
type Key struct {
	Algorithm string // one of Algorithms
	Secret    string // base64
	// ClusterName is the only cluster whose machines may name the key in their records. "" is any.
	ClusterName string
}

// String leaves out the secret.
func (k Key) String() string { return k.Algorithm + " key" }

// GoString leaves out the secret.
func (k Key) GoString() string { return k.String() }

// Algorithms returns the algorithms of keys, the default first.
func Algorithms() []string {
	var names []string
	for _, name := range []string{miekg.HmacSHA256, miekg.HmacSHA384, miekg.HmacSHA512} {
		names = append(names, strings.TrimSuffix(name, "."))
	}
	return names
}

// minSecret is the shortest secret in bytes: half of the shortest digest.
const minSecret = 16

// ValidateKey checks the name and the secret of a key. The error does not contain the secret.
func ValidateKey(name string, k Key) error {
	secret, err := base64.StdEncoding.DecodeString(k.Secret)
	switch {
	case !dnsName(name):
		return fmt.Errorf("%q is not the name of a key: it has to be a DNS name", name)
	case err != nil:
		return errors.New("the secret is not base64")
	case len(secret) < minSecret:
		return fmt.Errorf("the secret has %d bytes, fewer than %d", len(secret), minSecret)
	}
	return nil
}

// keyFile returns the key as nsupdate reads it. Name and key are valid, so nothing has to be quoted.
func keyFile(name string, k Key) []byte {
	return fmt.Appendf(nil, "key %q {\n\talgorithm %s;\n\tsecret %q;\n};\n", name, k.Algorithm, k.Secret)
}
