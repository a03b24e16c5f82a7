package pki

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"fmt"
	"strings"

	"golang.org/x/crypto/nacl/secretbox"
)

const (
	encryptedPrefix = "k8s:enc:" // then the provider, its version and the key's name, each with a colon
	nonceBytes      = 24         // of secretbox
	longestKeyName  = 253
)

// headBytes is how much of a value is its beginning: names of keys are short.
const headBytes = 48

// Decrypts returns why the API servers of the bundle cannot read a value of etcd, or nil. A value
// that is cut off after headBytes or less is judged by the name of its key alone.
func (b *Bundle) Decrypts(value []byte) error {
	rest, encrypted := bytes.CutPrefix(value, []byte(encryptedPrefix))
	if !encrypted {
		return nil
	}
	parts := bytes.SplitN(rest, []byte(":"), 4)
	if len(parts) < 4 || len(parts[2]) > longestKeyName {
		return nil // cut off within the name
	}
	kind, name, content := string(parts[0]), string(parts[2]), parts[3]
	for _, e := range b.Encryptions() {
		if string(e.Kind) != kind || e.Name != name {
			continue
		}
		if len(value) <= headBytes || e.opens(content) {
			return nil
		}
		return fmt.Errorf("a secret is encrypted with another %s key named %q than that of the bundle", kind, name)
	}
	return fmt.Errorf("secrets are encrypted with the %s key %q, which the API servers of the bundle do not have", kind,
		strings.ToValidUTF8(name, "?"))
}

// opens reports whether the key decrypts a value. The plugin of KMS is not asked.
func (e Encryption) opens(content []byte) bool {
	key, err := base64.StdEncoding.DecodeString(e.Key)
	switch {
	case e.Kind == KMS:
		return true
	case err != nil || len(key) != encryptionKeyBytes:
		return false
	case e.Kind == Secretbox:
		if len(content) < nonceBytes {
			return false
		}
		_, ok := secretbox.Open(nil, content[nonceBytes:], (*[nonceBytes]byte)(content[:nonceBytes]),
			(*[encryptionKeyBytes]byte)(key))
		return ok
	}
	return opensCBC(key, content)
}

// opensCBC decrypts the last block and checks its padding. Kubernetes' aescbc has no other check:
// one of 256 wrong keys passes.
func opensCBC(key, content []byte) bool {
	block, err := aes.NewCipher(key)
	size := aes.BlockSize
	if err != nil || len(content) < 2*size || len(content)%size != 0 {
		return false
	}
	last := make([]byte, size)
	cipher.NewCBCDecrypter(block, content[len(content)-2*size:len(content)-size]).
		CryptBlocks(last, content[len(content)-size:])
	padding := int(last[size-1])
	return padding >= 1 && padding <= size && bytes.Count(last[size-padding:], last[size-1:]) == padding
}
