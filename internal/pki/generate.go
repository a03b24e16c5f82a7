package pki

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"time"
)

// Lifetimes and backdating as in kubeadm's constants
// (CACertificateValidityPeriod, CertificateValidityPeriod,
// CertificateBackdate). The backdate lets a machine whose clock is a little
// behind use a new certificate at once.
const (
	authorityValidity = 10 * 365 * 24 * time.Hour
	leafValidity      = 365 * 24 * time.Hour
	backdate          = 5 * time.Minute
)

// clusterName is what may stand in kubeconfig contexts, unit environments and
// etcd tokens without quoting.
var clusterName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)

// Options are what Generate needs. Now is the moment of issue (NotBefore is
// five minutes earlier, as kubeadm does it).
type Options struct {
	ClusterName string
	Algorithm   Algorithm     // "" means ECDSA-P256
	Validity    time.Duration // of the authorities; 0 means ten years
	Now         time.Time
	Given       Next // what the user brings instead
	Deletable   bool // see Bundle.DeletionProtected
	// Generations are the numbers to begin with, each of a Steady stage.
	Generations map[Part]int
}

// standard fills in what is left out.
func (o Options) standard() Options {
	if o.Validity == 0 {
		o.Validity = authorityValidity
	}
	if o.Algorithm == "" {
		o.Algorithm = ECDSAP256
	}
	return o
}

// Generate makes a bundle with new keys, but for what is given.
func Generate(o Options) (*Bundle, error) {
	if err := ValidateClusterName(o.ClusterName); err != nil {
		return nil, fmt.Errorf("generate pki bundle: %w", err)
	}
	if o.Validity < 0 {
		return nil, fmt.Errorf("generate pki bundle: validity %s is negative", o.Validity)
	}
	o = o.standard()
	b := &Bundle{ClusterID: NewClusterID(), ClusterName: o.ClusterName, Algorithm: o.Algorithm, Deletable: o.Deletable}
	if err := b.generateKeys(o); err != nil {
		return nil, fmt.Errorf("generate pki bundle: %w", err)
	}
	if err := b.begin(o.Generations); err != nil {
		return nil, fmt.Errorf("generate pki bundle: %w", err)
	}
	if err := b.Validate(); err != nil {
		return nil, fmt.Errorf("generate pki bundle: %w", err)
	}
	return b, nil
}

// ValidateBeginning says why a bundle cannot begin with a generation number, or nil.
func ValidateBeginning(p Part, generation int) error {
	if generation < 0 || StageOf(generation) != Steady {
		return fmt.Errorf("rotation of %s cannot begin at %d: a new bundle begins between rotations, at 0 or another multiple of %d", p, generation, stages)
	}
	return nil
}

func (b *Bundle) begin(generations map[Part]int) error {
	for p, generation := range generations {
		if err := ValidateBeginning(p, generation); err != nil {
			return err
		}
		switch held, err := b.authority(Authority(p)); {
		case p == ServiceAccountPart:
			b.ServiceAccountRotation.Generation = generation
		case p == EncryptionPart:
			b.EncryptionRotation.Generation = generation
		case err != nil:
			return err
		default:
			held.rotation.Generation = generation
		}
	}
	return nil
}

// NewClusterID makes a random 128-bit cluster id in hex. Generate does this by
// itself; a bundle put together from existing files needs it.
func NewClusterID() string {
	id := make([]byte, clusterIDBytes)
	rand.Read(id) // never fails: crypto/rand ends the process instead
	return hex.EncodeToString(id)
}

func (b *Bundle) generateKeys(o Options) (err error) {
	for _, name := range []Authority{Kubernetes, Etcd, FrontProxy} {
		held, err := b.authority(name)
		if err != nil {
			return err
		}
		if *held.pair = o.Given.Authorities[name]; held.pair.Certificate != "" {
			continue
		}
		if *held.pair, err = newAuthority(commonNames[name], o); err != nil {
			return fmt.Errorf("authority %s: %w", name, err)
		}
	}
	if b.ServiceAccount, err = b.nextServiceAccount(o.Given.ServiceAccount, o); err != nil {
		return fmt.Errorf("service account: %w", err)
	}
	b.Encryption, err = o.Given.Encryption.fresh(o.Generations[EncryptionPart])
	return err
}

// ServiceAccountPair is the pair of a private key (PEM) that the user brings.
func ServiceAccountPair(privateKey string) (KeyPair, error) {
	key, err := parseKey(privateKey)
	if err != nil {
		return KeyPair{}, err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return KeyPair{}, errors.New("the public key of the private key cannot be encoded")
	}
	return KeyPair{PublicKey: encodePEM("PUBLIC KEY", public), PrivateKey: privateKey}, nil
}

func newAuthority(commonName string, o Options) (KeyPair, error) {
	key, err := newKey(o.Algorithm)
	if err != nil {
		return KeyPair{}, err
	}
	certificate, err := selfSign(commonName, key, o.Now.Add(-backdate), o.Now.Add(o.Validity))
	if err != nil {
		return KeyPair{}, err
	}
	private, err := encodeKey(key)
	return KeyPair{Certificate: certificate, PrivateKey: private}, err
}

func newServiceAccount(a Algorithm) (KeyPair, error) {
	key, err := newKey(a)
	if err != nil {
		return KeyPair{}, err
	}
	private, err := encodeKey(key)
	if err != nil {
		return KeyPair{}, err
	}
	return ServiceAccountPair(private)
}

// ValidateClusterName says why name cannot be that of a cluster, or nil.
func ValidateClusterName(name string) error {
	if name == "" {
		return errors.New("cluster name is empty")
	}
	if !clusterName.MatchString(name) {
		return fmt.Errorf("cluster name %q must be 1 to 63 letters, digits, dots, underscores or dashes, with a letter or digit first and last", name)
	}
	return nil
}
