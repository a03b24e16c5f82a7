package pki

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// EncryptionKind is how the API servers encrypt objects at rest: a provider of Kubernetes'
// EncryptionConfiguration.
type EncryptionKind string

// The kinds. The zero value does not encrypt.
const (
	Plain     EncryptionKind = ""
	Secretbox EncryptionKind = "secretbox"
	AESCBC    EncryptionKind = "aescbc"
	KMS       EncryptionKind = "kms" // version 2 of the KMS plugin interface
)

// encryptionKeyBytes is the key size of both kinds that have a key.
const encryptionKeyBytes = 32

// Encryption is how the API servers encrypt at rest, with the key if the kind has one. As with
// KeyPair, the key is never printed.
type Encryption struct {
	Kind      EncryptionKind
	Resources []string // "secrets"; sorted
	Name      string   // of the key, or of the plugin
	Key       string   // base64; not for KMS
	Endpoint  string   // for KMS: unix:///run/kms.sock
	Timeout   string   // for KMS: "3s"
}

// ValidateEncryptionKind returns why a kind cannot be used, or nil.
func ValidateEncryptionKind(kind string) error {
	switch EncryptionKind(kind) {
	case Secretbox, AESCBC, KMS:
		return nil
	case "aesgcm":
		return errors.New("aesgcm is not safe here: it needs a new key every 200,000 writes (kubernetes.io, Encrypting " +
			"Confidential Data at Rest), and nobody counts them; use secretbox")
	case "identity":
		return errors.New("identity is no encryption: leave encryption out to store in the clear")
	}
	return fmt.Errorf("unknown encryption provider %q: use secretbox, aescbc or kms", kind)
}

// ValidatePluginName returns why a KMS plugin cannot have a name, or nil: it is a part of the prefix of stored objects.
func ValidatePluginName(name string) error {
	if name == "" || strings.Contains(name, ":") {
		return fmt.Errorf("name %q of a KMS plugin: use a name without colons", name)
	}
	return nil
}

// Covers reports whether objects of a resource are encrypted.
func (e Encryption) Covers(resource string) bool {
	return e.Kind != Plain && slices.Contains(e.Resources, resource)
}

// introduce returns e as a rotation to the given number introduces it. If a key of its kind was withdrawn, it is the
// last of these.
func (b *Bundle) introduce(e Encryption, generation int) (Encryption, error) {
	if err := errors.Join(e.splits(b.Encryption), b.Encryption.splits(e)); err != nil {
		return Encryption{}, err
	}
	if e.Kind == KMS && b.Encryption.Kind == KMS && e.Name == b.Encryption.Name {
		return Encryption{}, fmt.Errorf("the API servers need the present KMS plugin and the next one at once, and both "+
			"have the name %q: give the next one another name in kms.name; the present one stays until the third stage", e.Name)
	}
	if other, ok := lastOf(e.Kind, b.WithdrawnKeys); ok {
		e.Name, e.Key = other.Name, other.Key
		return e, nil
	}
	return e.fresh(generation, b.keptEncryptions())
}

// keptEncryptions returns all encryptions that the bundle has: those that API servers can read, and those that old
// backups need.
func (b *Bundle) keptEncryptions() []Encryption {
	kept := append([]Encryption{b.Encryption}, b.WithdrawnKeys...)
	for _, e := range []*Encryption{b.EncryptionRotation.Other, b.EncryptionRotation.Former} {
		if e != nil {
			kept = append(kept, *e)
		}
	}
	return kept
}

// lastOf returns the last encryption of a kind.
func lastOf(kind EncryptionKind, all []Encryption) (last Encryption, ok bool) {
	for _, e := range all {
		if e.Kind == kind {
			last, ok = e, true
		}
	}
	return last, ok
}

// splits returns an error if e is a KMS plugin that API servers would have to name twice, for resources of which other
// covers only some: kube-apiserver refuses a plugin's name in more than one entry of its configuration
// (apis/apiserver/validation/validation_encryption.go of k8s.io/apiserver).
func (e Encryption) splits(other Encryption) error {
	if e.Kind != KMS {
		return nil
	}
	for _, resource := range e.Resources {
		if other.Covers(resource) != other.Covers(e.Resources[0]) {
			return fmt.Errorf("the KMS plugin %q encrypts %s, and the other encryption of this rotation only some of "+
				"these: the API servers need both at once, and refuse that. Change the provider and the resources in two "+
				"rotations: first to secretbox for all of the resources, then to the one that you want",
				e.Name, strings.Join(e.Resources, " and "))
		}
	}
	return nil
}

// fresh returns e as a rotation to the given number introduces it. If it has a key, the key is new, and its name
// differs from those of the kept ones, which kubeadm's administrator may have chosen: of two keys with one name, only
// one could be used to read what either has encrypted.
func (e Encryption) fresh(generation int, kept []Encryption) (Encryption, error) {
	if e.Kind == Plain || e.Kind == KMS {
		return e, nil
	}
	key := make([]byte, encryptionKeyBytes)
	rand.Read(key) // never fails: crypto/rand ends the process instead
	number := (generation+stages-1)/stages + 1
	for slices.ContainsFunc(kept, func(other Encryption) bool { return other.Name == keyName(number) }) {
		number++
	}
	e.Name, e.Key = keyName(number), base64.StdEncoding.EncodeToString(key)
	return e, nil
}

func keyName(number int) string { return fmt.Sprintf("key%d", number) }

// describes reports whether other equals e, except for the key, which belongs to the bundle.
func (e Encryption) describes(other Encryption) bool {
	if e.Kind != KMS {
		other.Name = e.Name
	}
	return e.Kind == other.Kind && slices.Equal(e.Resources, other.Resources) &&
		e.Name == other.Name && e.Endpoint == other.Endpoint && e.Timeout == other.Timeout
}

// Encryptions returns the encryptions that the API servers can read, starting with the one that
// they write with.
func (b *Bundle) Encryptions() []Encryption {
	if r := b.EncryptionRotation; r.Stage() != Steady {
		return []Encryption{b.Encryption, *r.Other}
	}
	return []Encryption{b.Encryption}
}

func (e Encryption) validate() error {
	if e.Kind == Plain {
		return nil
	}
	if err := ValidateEncryptionKind(string(e.Kind)); err != nil {
		return err
	}
	if len(e.Resources) == 0 || e.Name == "" {
		return errors.New("encryption without resources or name")
	}
	if e.Kind == KMS {
		return nil
	}
	if key, err := base64.StdEncoding.DecodeString(e.Key); err != nil || len(key) != encryptionKeyBytes {
		return fmt.Errorf("encryption key %s is not %d bytes in base64", e.Name, encryptionKeyBytes)
	}
	return nil
}
