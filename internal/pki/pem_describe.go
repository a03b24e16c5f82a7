package pki

import (
	"encoding/json"
	"encoding/pem"
	"slices"
	"strings"
)

// base64OfPEM is the beginning of "-----BEGIN" in base64, as in the data fields of kubeconfigs
// and Secrets.
const base64OfPEM = "LS0tLS1CRUdJT"

// describePEM describes the content of a text that is not the expected one. It quotes nothing:
// a label, or a line of the text, may be part of a key.
func describePEM(text string) string {
	kinds := pemKinds(text)
	switch text = strings.TrimSpace(text); {
	case text == "":
		return "it is empty"
	case len(kinds) > 0:
		return "it holds " + strings.Join(kinds, " and ")
	case strings.HasPrefix(text, base64OfPEM):
		return "it is base64, which has to be decoded first"
	case strings.HasPrefix(text, "{") && json.Valid([]byte(text)):
		return "it is JSON" // most likely a bundle
	case strings.Contains(text, "-----BEGIN "):
		return "it holds a PEM block that is cut off or damaged"
	}
	return "it is no PEM text"
}

// pemKinds returns the distinct kinds of blocks in a text.
func pemKinds(text string) []string {
	var kinds []string
	for rest := []byte(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return kinds
		}
		if kind := pemKind(block.Type); !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
}

const privateKeyKind = "a private key"

func pemKind(label string) string {
	switch label {
	case "CERTIFICATE":
		return "a certificate"
	case "CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST":
		return "a certificate request"
	case "PUBLIC KEY", "RSA PUBLIC KEY":
		return "a public key"
	case "EC PARAMETERS", "DH PARAMETERS":
		return "key parameters"
	case "X509 CRL":
		return "a revocation list"
	}
	if strings.HasSuffix(label, "PRIVATE KEY") {
		return privateKeyKind
	}
	return "a PEM block of another kind"
}
