package pki

import (
	"crypto"
	"encoding/hex"
	"fmt"
)

// Validate checks that the parts of a bundle belong together. Parse calls it; a bundle
// assembled from existing files needs an explicit call. It ignores time: an expired authority
// is valid here and rejected by Issue.
func (b *Bundle) Validate() error {
	if id, err := hex.DecodeString(b.ClusterID); err != nil || len(id) != clusterIDBytes ||
		hex.EncodeToString(id) != b.ClusterID {
		return fmt.Errorf("cluster id must be %d lower-case hex digits", 2*clusterIDBytes)
	}
	if err := ValidateClusterName(b.ClusterName); err != nil {
		return err
	}
	if _, err := b.Algorithm.keyRequest(); err != nil {
		return err
	}
	return b.validateKeys()
}

// purpose is a key and its use.
type purpose struct {
	name string
	key  crypto.PublicKey
}

func (b *Bundle) validateKeys() error {
	var purposes []purpose
	for _, name := range []Authority{Kubernetes, Etcd, FrontProxy} {
		held, err := b.authority(name)
		if err != nil {
			return err
		}
		keys, err := held.purposes(name)
		if err != nil {
			return fmt.Errorf("authority %s: %w", name, err)
		}
		purposes = append(purposes, keys...)
	}
	keys, err := b.serviceAccounts()
	if err != nil {
		return fmt.Errorf("service account: %w", err)
	}
	purposes = append(purposes, keys...)
	for i, p := range purposes {
		for _, q := range purposes[:i] {
			if samePublicKey(p.key, q.key) {
				return fmt.Errorf("%s and %s have the same key: one key must never serve two purposes", q.name, p.name)
			}
		}
	}
	return b.validateEncryption()
}

// purposes checks an authority's pairs, and returns the use of each key.
func (h heldAuthority) purposes(name Authority) ([]purpose, error) {
	certificate, err := h.pair.trusted()
	if err != nil {
		return nil, err
	}
	if h.rotation.Withdrawn != "" {
		if _, err := parseTrusted(h.rotation.Withdrawn); err != nil {
			return nil, fmt.Errorf("those that were withdrawn: %w", err)
		}
	}
	keys := []purpose{{"authority " + string(name), certificate.PublicKey}}
	if err := h.rotation.validate(); err != nil || h.rotation.Other == nil {
		return keys, err
	}
	other, err := h.rotation.Other.trusted()
	if err != nil {
		return nil, fmt.Errorf("the one of its rotation: %w", err)
	}
	return append(keys, purpose{"the other authority " + string(name), other.PublicKey}), nil
}

func (b *Bundle) serviceAccounts() ([]purpose, error) {
	public, err := b.ServiceAccount.serviceAccount(true)
	if err != nil {
		return nil, err
	}
	keys := []purpose{{"service account", public}}
	r := b.ServiceAccountRotation
	if err := r.validate(); err != nil || r.Other == nil {
		return keys, err
	}
	other, err := r.Other.serviceAccount(r.Stage() == Introduced) // the next one will sign; the previous one may lack it
	if err != nil {
		return nil, fmt.Errorf("the one of its rotation: %w", err)
	}
	return append(keys, purpose{"the other service account", other}), nil
}

func (b *Bundle) validateEncryption() error {
	if err := b.Encryption.validate(); err != nil {
		return err
	}
	for _, withdrawn := range b.WithdrawnKeys {
		if err := withdrawn.validate(); err != nil {
			return fmt.Errorf("a key that was withdrawn: %w", err)
		}
	}
	r := b.EncryptionRotation
	if r.Former != nil {
		if err := r.Former.validate(); err != nil {
			return fmt.Errorf("the one before its rotation: %w", err)
		}
	}
	if err := r.validate(); err != nil || r.Other == nil {
		return err
	}
	if r.Other.Kind != Plain && r.Other.Name == b.Encryption.Name && r.Other.Kind == b.Encryption.Kind {
		return fmt.Errorf("encryption and its rotation have the same name %q", r.Other.Name)
	}
	return r.Other.validate()
}

// validate checks that there are two values while a rotation is in progress.
func (r Rotation[T]) validate() error {
	if r.Generation < 0 || r.Other == nil && r.Stage() != Steady {
		return fmt.Errorf("generation %d lacks the other one of its rotation", r.Generation)
	}
	return nil
}
