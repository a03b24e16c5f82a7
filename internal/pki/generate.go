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

// Lifetimes and backdating are those of kubeadm's constants (CACertificateValidityPeriod,
// CertificateValidityPeriod, CertificateBackdate). Backdating lets a machine whose clock is
// slightly behind use a new certificate immediately.
const (
	authorityValidity = 10 * 365 * 24 * time.Hour
	backdate          = 5 * time.Minute
)

// leafLife is text, so that the linker can set it: a test of a year of renewals builds a provider
// whose certificates live for minutes.
var (
	leafLife     = "8760h"
	leafValidity = mustDuration(leafLife)
)

func mustDuration(text string) time.Duration {
	duration, err := time.ParseDuration(text)
	if err != nil || duration <= 0 {
		panic(fmt.Sprintf("the life of certificates is %q: %v", text, err))
	}
	return duration
}

// clusterName allows the characters that need no quoting in kubeconfig contexts, unit
// environments and etcd tokens.
var clusterName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)

// Options are the inputs of Generate. Now is the time of issue (as in kubeadm, NotBefore is
// five minutes earlier).
type Options struct {
	ClusterName string
	Algorithm   Algorithm     // "" means ECDSA-P256
	Validity    time.Duration // of the authorities; 0 means ten years
	Now         time.Time
	Supplied    Next // supplied by the user instead of being generated
	Deletable   bool // see Bundle.DeletionProtected
	// Generations are the initial numbers, each of a Steady stage.
	Generations map[Part]int
}

// standard sets the defaults.
func (o Options) standard() Options {
	if o.Validity == 0 {
		o.Validity = authorityValidity
	}
	if o.Algorithm == "" {
		o.Algorithm = ECDSAP256
	}
	return o
}

// Generate creates a bundle with new keys, except for those supplied by the user.
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

// ValidateBeginning returns why a bundle cannot start with a generation number, or nil.
func ValidateBeginning(p Part, generation int) error {
	if generation < 0 || StageOf(generation) != Steady {
		return fmt.Errorf("rotation of %s cannot begin at %d: a new bundle begins between rotations, at 0 or another "+
			"multiple of %d", p, generation, stages)
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

// NewClusterID returns a random 128-bit cluster ID in hex. Generate calls it; a bundle
// assembled from existing files needs an explicit call.
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
		if *held.pair = o.Supplied.Authorities[name]; held.pair.Certificate != "" {
			continue
		}
		if *held.pair, err = newAuthority(commonNames[name], o); err != nil {
			return fmt.Errorf("authority %s: %w", name, err)
		}
	}
	if b.ServiceAccount, err = b.nextServiceAccount(o.Supplied.ServiceAccount, o); err != nil {
		return fmt.Errorf("service account: %w", err)
	}
	b.Encryption, err = o.Supplied.Encryption.fresh(o.Generations[EncryptionPart], nil)
	return err
}

// ServiceAccountPair returns the pair of a private key (PEM) that the user supplies.
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

// ValidateClusterName returns why name is not a valid cluster name, or nil.
func ValidateClusterName(name string) error {
	if name == "" {
		return errors.New("cluster name is empty")
	}
	if !clusterName.MatchString(name) {
		return fmt.Errorf("cluster name %q must be 1 to 63 letters, digits, dots, underscores or dashes, with a letter or "+
			"digit first and last", name)
	}
	return nil
}
