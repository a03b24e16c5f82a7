package pki

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/crypto/nacl/secretbox"
)

const (
	encryptedPrefix = "k8s:enc:" // then the provider, its version and the key's name, each with a colon
	nonceBytes      = 24         // of secretbox
	longestKeyName  = 253
)

// ErrUnencrypted means that objects are stored in the clear, and that no API server of the bundle reads them.
var ErrUnencrypted = errors.New("stored unencrypted, and the API servers of the bundle read only encrypted ones")

// headBytes is how much of a value is its beginning: names of keys are short.
const headBytes = 48

// Reads returns why the API servers of the bundle cannot read a value of etcd that belongs to an object of the
// resource, or nil. An unencrypted value is judged by its resource alone: an API server reads it only as long as one of
// its encryptions stores that resource in the clear.
func (b *Bundle) Reads(resource string, value []byte) error {
	clear := func(e Encryption) bool { return !e.Covers(resource) }
	if bytes.HasPrefix(value, []byte(encryptedPrefix)) || slices.ContainsFunc(b.Encryptions(), clear) {
		return b.Decrypts(value)
	}
	return fmt.Errorf("%s are %w", resource, ErrUnencrypted)
}

// missingKey means that no API server of the bundle has the key of an object.
type missingKey struct{ kind, name string }

func (m *missingKey) Error() string {
	return fmt.Sprintf("objects are encrypted with the %s key %q, which the API servers of the bundle do not have", m.kind,
		strings.ToValidUTF8(m.name, "?"))
}

func (m *missingKey) is(e Encryption) bool { return string(e.Kind) == m.kind && e.Name == m.name }

// StepToRead describes what makes API servers of the bundle read objects that they cannot read for a reason that Reads
// or Decrypts has returned; "" if the bundle does not have what that takes.
func (b *Bundle) StepToRead(reason error) string {
	if missing := (*missingKey)(nil); errors.As(reason, &missing) {
		return b.stepToDecrypt(missing)
	}
	if errors.Is(reason, ErrUnencrypted) {
		return b.stepToReadUnencrypted()
	}
	return ""
}

func (b *Bundle) stepToReadUnencrypted() string {
	r := b.EncryptionRotation
	switch {
	case r.Stage() != Steady:
		return "take the rotation of encryption back, then begin one to no encryption"
	case r.Other != nil && r.Other.Kind == Plain:
		return fmt.Sprintf("set rotation.encryption back to %d", r.Generation-1)
	}
	return fmt.Sprintf("remove encryption from kube_pki_bundle and set rotation.encryption to %d: its first stage reads "+
		"both", r.Generation+1)
}

// Decrypts returns why the API servers of the bundle cannot read a value of etcd, or nil. A value
// that is cut off after headBytes or less is judged by the name of its key alone.
func (b *Bundle) Decrypts(value []byte) error {
	_, err := b.Open(value)
	return err
}

// Open returns the object in a value of etcd, or why the API servers of the bundle cannot read it. The object is nil if
// only they can: the value is cut off, or encrypted by a plugin of KMS.
func (b *Bundle) Open(value []byte) ([]byte, error) {
	rest, encrypted := bytes.CutPrefix(value, []byte(encryptedPrefix))
	if !encrypted {
		return value, nil
	}
	parts := bytes.SplitN(rest, []byte(":"), 4)
	if len(parts) < 4 || len(parts[2]) > longestKeyName {
		return nil, nil // cut off within the name
	}
	kind, name, content := string(parts[0]), string(parts[2]), parts[3]
	for _, e := range b.Encryptions() {
		if string(e.Kind) != kind || e.Name != name {
			continue
		}
		if len(value) <= headBytes {
			return nil, nil
		}
		if object, ok := e.open(content); ok {
			return object, nil
		}
		return nil, fmt.Errorf("an object is encrypted with another %s key named %q than that of the bundle", kind, name)
	}
	return nil, &missingKey{kind, name}
}

func (b *Bundle) stepToDecrypt(missing *missingKey) string {
	r := b.EncryptionRotation
	again, withdrawn := lastOf(EncryptionKind(missing.kind), b.WithdrawnKeys)
	switch {
	case r.Other != nil && missing.is(*r.Other):
		return fmt.Sprintf("set rotation.encryption back to %d", r.Generation-1)
	case r.Former != nil && missing.is(*r.Former):
		return fmt.Sprintf("take the rotation of encryption back, then set rotation.encryption back to %d",
			r.Generation-int(r.Stage())-1)
	case !withdrawn || !missing.is(again):
		return ""
	case r.Stage() == Steady:
		return fmt.Sprintf("set rotation.encryption to %d, with encryption for %s: this introduces this key again",
			r.Generation+1, missing.kind)
	}
	end := "take the rotation of encryption back"
	if newest(b.Encryption, r).Kind == again.Kind { // taken back, its key would be the one that is introduced again
		end = "complete the rotation of encryption"
	}
	return fmt.Sprintf("%s, then begin one to %s, which introduces this key again", end, missing.kind)
}

// open decrypts a value with the key. The plugin of KMS is not asked.
func (e Encryption) open(content []byte) (object []byte, ok bool) {
	key, err := base64.StdEncoding.DecodeString(e.Key)
	switch {
	case e.Kind == KMS:
		return nil, true
	case err != nil || len(key) != encryptionKeyBytes:
		return nil, false
	case e.Kind == Secretbox:
		if len(content) < nonceBytes {
			return nil, false
		}
		return secretbox.Open(nil, content[nonceBytes:], (*[nonceBytes]byte)(content[:nonceBytes]),
			(*[encryptionKeyBytes]byte)(key))
	}
	return openCBC(key, content)
}

// openCBC decrypts a value and checks its padding. Kubernetes' aescbc has no other check: one of 256 wrong keys passes.
func openCBC(key, content []byte) (object []byte, ok bool) {
	block, err := aes.NewCipher(key)
	size := aes.BlockSize
	if err != nil || len(content) < 2*size || len(content)%size != 0 {
		return nil, false
	}
	object = make([]byte, len(content)-size)
	cipher.NewCBCDecrypter(block, content[:size]).CryptBlocks(object, content[size:])
	end := object[len(object)-1:]
	padding := int(end[0])
	if padding < 1 || padding > size || bytes.Count(object[len(object)-padding:], end) != padding {
		return nil, false
	}
	return object[:len(object)-padding], true
}
