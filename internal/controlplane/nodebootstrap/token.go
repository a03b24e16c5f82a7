package nodebootstrap

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// Token is a bootstrap token. Its secret appears in no message.
type Token struct {
	ID     string
	secret string
}

const (
	tokenAlphabet = "abcdefghijklmnopqrstuvwxyz0123456789"
	tokenIDLength = 6
	secretLength  = 16
	// TokenType is the type of the Secrets of bootstrap tokens.
	TokenType = "bootstrap.kubernetes.io/token"

	tokenPrefix = "bootstrap-token-"
)

var tokenID = regexp.MustCompile(`^[a-z0-9]{6}$`)

// NewToken returns a random token: 31 bits of ID and 82 bits of secret, as with kubeadm token generate.
func NewToken() (Token, error) {
	text := make([]byte, tokenIDLength+secretLength)
	for i := range text {
		n, err := rand.Int(rand.Reader, big.NewInt(int64(len(tokenAlphabet))))
		if err != nil {
			return Token{}, fmt.Errorf("make a bootstrap token: %w", err)
		}
		text[i] = tokenAlphabet[n.Int64()]
	}
	return Token{ID: string(text[:tokenIDLength]), secret: string(text[tokenIDLength:])}, nil
}

// Text returns the token as clients send it. It is a secret.
func (t Token) Text() string { return t.ID + "." + t.secret }

// String and the others keep the secret out of messages.
func (t Token) String() string { return "bootstrap token " + t.ID }

// GoString is String.
func (t Token) GoString() string { return t.String() }

// Object returns the Secret of the token. A zero expiry means that it never expires.
func (t Token) Object(expires time.Time, description string) Object {
	fields := map[string]string{
		"token-id": t.ID, "token-secret": t.secret, "description": description,
		"usage-bootstrap-signing": "true", "usage-bootstrap-authentication": "true",
		"auth-extra-groups": tokenGroup,
	}
	if !expires.IsZero() {
		fields["expiration"] = expires.UTC().Format(time.RFC3339)
	}
	data := map[string]any{}
	for name, value := range fields {
		data[name] = base64.StdEncoding.EncodeToString([]byte(value))
	}
	o := TokenObject(t.ID)
	o.Fields = map[string]any{"type": TokenType, "data": data}
	return o
}

// TokenObject identifies the Secret of a token, without its content.
func TokenObject(id string) Object {
	return Object{Resource: "secrets", Kind: "Secret", Namespace: system, Name: tokenPrefix + id}
}

// TokenIDs returns the IDs of the tokens among the names of Secrets, sorted.
func TokenIDs(names []string) []string {
	var ids []string
	for _, name := range names {
		if id, is := strings.CutPrefix(name, tokenPrefix); is && tokenID.MatchString(id) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Pins returns, for each CA that servers of the cluster may have, the digest of its public key, in the form of
// kubeadm's --discovery-token-ca-cert-hash. One that matches is enough for kubeadm.
func Pins(b *pki.Bundle) ([]string, error) {
	var pins []string
	for _, text := range pki.CertificatesIn(b.Anchors(pki.Kubernetes)) {
		ca, err := x509.ParseCertificate([]byte(text))
		if err != nil {
			return nil, errors.New("digest of the Kubernetes CA's key: the certificate cannot be decoded")
		}
		sum := sha256.Sum256(ca.RawSubjectPublicKeyInfo)
		pins = append(pins, "sha256:"+hex.EncodeToString(sum[:]))
	}
	return slices.Compact(pins), nil
}

// JoinCommand returns the command that makes a machine a worker. It contains the token, which is a secret.
func JoinCommand(endpoint, token string, pins []string) string {
	command := "kubeadm join " + endpoint + " --token " + token
	for _, pin := range pins {
		command += " --discovery-token-ca-cert-hash " + pin
	}
	return command
}
