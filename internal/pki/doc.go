// Package pki holds the certificates of one cluster: three authorities, the
// service-account keys, kubeadm's catalogue of leaf certificates, issuing them
// with cfssl, and kubeconfigs. It is pure: plain values in and out, no machine,
// no Terraform, no clock of its own.
//
// # The bundle
//
// A [Bundle] is everything that is secret and cannot be made again. [Generate]
// makes one; [Bundle.Encode] writes it as JSON for the resources that need it,
// and [Parse] reads it back, refusing a bundle whose parts do not belong
// together. Everything else is derived: a [Leaf] describes a certificate,
// [Bundle.Issue] makes it with a key of its own, and [Bundle.Check] says later,
// without any private key, whether the certificate on a machine still is what
// the leaf asks for.
//
// # Compatibility
//
// Subjects, names, usages, lifetimes and PEM types are kubeadm's (v1.34,
// cmd/kubeadm/app/phases/certs/certlist.go and util/pkiutil), so that each side
// accepts what the other made; a test holds the two against each other. One
// detail is cfssl's: leaf certificates also carry a subject key identifier, as
// RFC 5280 section 4.2.1.2 recommends.
//
// # Secrets
//
// No error of this package quotes what it failed to read, and [KeyPair], [Bundle]
// and [Access] print without their secrets. One gap is fmt's: it calls no
// methods on values in unexported struct fields. A struct that keeps a bundle
// in one must not be printed, or needs a Format method of its own.
package pki
