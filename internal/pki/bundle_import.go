package pki

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"
)

// MachineFiles are the parts of a bundle on a machine, between rotations. Missing keys are
// empty.
type MachineFiles struct {
	ClusterID   string // "": derived from the Kubernetes authority, so that every machine returns the same
	ClusterName string
	Authorities map[Authority]KeyPair
	// ServiceAccountKey is the private key (PEM).
	ServiceAccountKey string
	Encryption        Encryption
	ReadsPlain        bool // the API servers also read objects that are not encrypted
	Generations       map[Part]int
	Leaf              string // an issued certificate: new ones get keys of the same algorithm
}

// FromMachine builds a bundle from the files of a machine. No machine has the remains of
// earlier rotations, so the bundle cannot return to a previous stage.
func FromMachine(f MachineFiles) (*Bundle, error) {
	for part, generation := range f.Generations {
		if stage := StageOf(generation); stage != Steady {
			return nil, fmt.Errorf("rotation of %s is under way (generation %d), and a machine does not hold both of its sides",
				part, generation)
		}
	}
	b := &Bundle{
		ClusterID: f.ClusterID, ClusterName: f.ClusterName, Algorithm: algorithmLike(f.Leaf),
		CA: f.Authorities[Kubernetes], EtcdCA: f.Authorities[Etcd], FrontProxyCA: f.Authorities[FrontProxy],
		Encryption: f.Encryption,
	}
	if b.ClusterID == "" {
		c, err := firstCertificate(b.CA.Certificate)
		if err != nil {
			return nil, fmt.Errorf("authority %s: %w", Kubernetes, err)
		}
		b.ClusterID = ClusterIDOf(c.Raw)
	}
	account, err := ServiceAccountPair(f.ServiceAccountKey)
	if err != nil {
		return nil, fmt.Errorf("service account: %w", err)
	}
	b.ServiceAccount = account
	if err := b.begin(f.Generations); err != nil {
		return nil, err
	}
	if f.ReadsPlain { // as after the second stage of a rotation from no encryption: the third one rewrites what is plain
		b.EncryptionRotation = Rotation[Encryption]{Generation: int(Adopted), Other: &Encryption{}}
	}
	return b, b.Validate()
}

// ClusterIDOf returns the ID of a cluster that the provider has not created: that of its Kubernetes authority, whose
// first certificate is given as DER.
func ClusterIDOf(authority []byte) string {
	sum := sha256.Sum256(authority)
	return hex.EncodeToString(sum[:clusterIDBytes])
}

// algorithmLike returns the algorithm of a certificate's key if a bundle may use it.
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

// Externals returns the authorities whose key the bundle does not have.
func (b *Bundle) Externals() []Authority {
	var names []Authority
	for _, name := range []Authority{Kubernetes, Etcd, FrontProxy} {
		if b.External(name) {
			names = append(names, name)
		}
	}
	return names
}

// Validity returns the lifetime of the bundle's authorities, taken from the newest Kubernetes
// authority, or the default. A lifetime that is not a whole number of hours comes from another
// tool and does not tell the lifetime of the next authority.
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

// NewestEncryption returns the encryption that the configuration describes.
func (b *Bundle) NewestEncryption() Encryption { return newest(b.Encryption, b.EncryptionRotation) }
