package pki

import (
	"crypto/x509"
	"time"
)

// Algorithm is a key algorithm with its size.
type Algorithm string

// The algorithms that a bundle may use.
const (
	ECDSAP256 Algorithm = "ECDSA-P256" // the default
	ECDSAP384 Algorithm = "ECDSA-P384"
	RSA2048   Algorithm = "RSA-2048"
	RSA3072   Algorithm = "RSA-3072"
	RSA4096   Algorithm = "RSA-4096"
)

// KeyPair is a certificate (empty for the service-account pair, which has a public key instead)
// and its private key, PEM encoded. The String and GoString methods of values with a key do not
// print the key.
type KeyPair struct {
	Certificate string
	PublicKey   string // PEM "PUBLIC KEY"; only for the service-account pair
	PrivateKey  string
}

// Bundle is the PKI of one cluster: three authorities, the service-account keys and the keys of
// encryption at rest. It is passed from resource to resource as the text that Encode returns.
//
// A pair is the one in use: it signs. Its Certificate may contain the authority's issuers after
// its own. If PrivateKey is empty, the key is external: certificates of that authority are
// signed elsewhere (see Signed).
type Bundle struct {
	ClusterID      string // random, generated with the bundle: identifies the cluster in locks, tokens and records
	ClusterName    string
	Algorithm      Algorithm // of the keys that Issue generates; an imported authority may have another
	CA             KeyPair   // kubernetes
	EtcdCA         KeyPair   // etcd-ca
	FrontProxyCA   KeyPair   // front-proxy-ca
	ServiceAccount KeyPair
	Encryption     Encryption

	// Deletable allows the deletion of the cluster: its last voter, its last serving replica
	// and the bundle itself may be destroyed. See DeletionProtected.
	Deletable bool

	// The other value of each part, next to the one in use.
	CARotation             Rotation[KeyPair]
	EtcdCARotation         Rotation[KeyPair]
	FrontProxyCARotation   Rotation[KeyPair]
	ServiceAccountRotation Rotation[KeyPair]
	EncryptionRotation     Rotation[Encryption]

	// WithdrawnKeys are encryptions with a key whose introduction was taken back, the last one at the end. Snapshots may
	// need them. API servers do not have them, and the next rotation to a kind introduces the last key of that kind again.
	WithdrawnKeys []Encryption

	// Signed are pairs whose certificates were signed externally, by the name of their leaf.
	// They belong to one machine and are not part of the text.
	Signed map[string]KeyPair
}

// Authority names one of the bundle's three authorities.
type Authority string

// The three authorities.
const (
	Kubernetes Authority = "kubernetes"
	Etcd       Authority = "etcd"
	FrontProxy Authority = "front-proxy"
)

// Usage is the purpose of a leaf certificate.
type Usage int

// The extended key usages of the catalogue.
const (
	Client Usage = 1 << iota
	Server
)

// Leaf describes one leaf certificate: a row of kubeadm's table.
type Leaf struct {
	// Name is kubeadm's base name below /etc/kubernetes/pki: "apiserver", "etcd/server". For a
	// client certificate in a kubeconfig, it is a name for messages.
	Name          string
	Authority     Authority
	CommonName    string
	Organizations []string
	Usage         Usage
	Hosts         []string // DNS names and IP addresses, in any order, duplicates allowed
}

// extended returns the usages as crypto/x509's constants.
func (u Usage) extended() []x509.ExtKeyUsage {
	var usages []x509.ExtKeyUsage
	if u&Server != 0 {
		usages = append(usages, x509.ExtKeyUsageServerAuth)
	}
	if u&Client != 0 {
		usages = append(usages, x509.ExtKeyUsageClientAuth)
	}
	return usages
}

// Info is the content of a certificate.
type Info struct {
	Subject       string // in the format of RFC 2253: "CN=cp1,O=system:nodes"
	CommonName    string
	Organizations []string
	Issuer        string // in the same format; equal to Subject for a self-signed authority
	DNSNames      []string
	IPAddresses   []string
	Algorithm     Algorithm // of its key; Go's name for an algorithm without a size
	Usage         Usage
	Usages        []string // all extended key usages, by their names in Kubernetes: "server auth"
	IsCA          bool
	NotBefore     time.Time
	NotAfter      time.Time
	Serial        string // hex
	SHA256        string // fingerprint of the DER, hex
}
