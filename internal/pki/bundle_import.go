package pki

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"
)

// MachineFiles are the parts of a bundle on a machine between rotations. Missing keys
// are empty.
type MachineFiles struct {
	ClusterID   string // "": made of the Kubernetes authority, so that every machine gives the same
	ClusterName string
	Authorities map[Authority]KeyPair
	// ServiceAccountKey is the private key (PEM).
	ServiceAccountKey string
	Encryption        Encryption
	Generations       map[Part]int
	Leaf              string // a certificate that was issued: new ones get keys of its kind
}

// FromMachine makes a bundle of the files of a machine. No machine has what earlier
// rotations left, so the bundle cannot return to one.
func FromMachine(f MachineFiles) (*Bundle, error) {
	for part, generation := range f.Generations {
		if stage := StageOf(generation); stage != Steady {
			return nil, fmt.Errorf("rotation of %s is under way (generation %d), and a machine does not hold both of its sides",
				part, generation)
		}
	}
	b := &Bundle{
		ClusterID: f.ClusterID, ClusterName: f.ClusterName, Algorithm: algorithmLike(f.Leaf),
		CA: f.Authorities[Kubernetes], EtcdCA: f.Authorities[Etcd], FrontProxyCA: f.Authorities[FrontProxy], Encryption: f.Encryption,
	}
	if b.ClusterID == "" {
		c, err := firstCertificate(b.CA.Certificate)
		if err != nil {
			return nil, fmt.Errorf("authority %s: %w", Kubernetes, err)
		}
		sum := sha256.Sum256(c.Raw)
		b.ClusterID = hex.EncodeToString(sum[:clusterIDBytes])
	}
	account, err := ServiceAccountPair(f.ServiceAccountKey)
	if err != nil {
		return nil, fmt.Errorf("service account: %w", err)
	}
	b.ServiceAccount = account
	if err := b.begin(f.Generations); err != nil {
		return nil, err
	}
	return b, b.Validate()
}

// algorithmLike is that of a certificate's key where a bundle may use it.
func algorithmLike(certificate string) Algorithm {
	info, err := Inspect(certificate)
	if err != nil {
		return ECDSAP256
	}
	if _, err := info.Algorithm.keyRequest(); err != nil {
		return ECDSAP256
	}
	return info.Algorithm
}

// Externals are those authorities whose key the bundle does not have.
func (b *Bundle) Externals() []Authority {
	var names []Authority
	for _, name := range []Authority{Kubernetes, Etcd, FrontProxy} {
		if b.External(name) {
			names = append(names, name)
		}
	}
	return names
}

// Validity is the lifetime of the bundle's authorities by the newest Kubernetes one,
// or the default: an authority whose lifetime is not a whole number of hours was made by
// another tool, and does not say how long the next one lives.
func (b *Bundle) Validity() time.Duration {
	c, err := firstCertificate(newest(b.CA, b.CARotation).Certificate)
	if err != nil {
		return authorityValidity
	}
	life := infoOf(c).Life()
	if life <= 0 || life%time.Hour != 0 {
		return authorityValidity
	}
	return life
}

// NewestEncryption is the one that a configuration speaks of.
func (b *Bundle) NewestEncryption() Encryption { return newest(b.Encryption, b.EncryptionRotation) }
