// Package pki manages the certificates of one cluster: three authorities, the service-account
// keys, kubeadm's catalogue of leaf certificates, issuing them with cfssl, and kubeconfigs. It
// is pure: it takes and returns plain values, and uses no machine, no Terraform and no clock of
// its own.
//
// # The bundle
//
// A [Bundle] contains everything that is secret and cannot be recreated. [Generate] creates
// one. [Bundle.Encode] writes it as JSON for the resources that need it, and [Parse] reads it
// back and rejects a bundle whose parts do not belong together. Everything else is derived: a
// [Leaf] describes a certificate, [Bundle.Issue] issues it with a key of its own, and
// [Bundle.Check] later reports, without any private key, whether the certificate on a machine
// still matches the leaf.
//
// # Compatibility
//
// Subjects, names, usages, lifetimes and PEM types are kubeadm's (v1.36,
// cmd/kubeadm/app/phases/certs/certlist.go and util/pkiutil), so that each side accepts what
// the other created; a test compares the two. One detail is cfssl's: leaf certificates also
// have a subject key identifier, as RFC 5280 section 4.2.1.2 recommends.
//
// # Secrets
//
// No error of this package quotes text that it failed to parse, and [KeyPair], [Bundle] and
// [Access] print without their secrets. There is one gap in fmt: it calls no methods on values
// in unexported struct fields. A struct that keeps a bundle in such a field must not be
// printed, or needs a Format method of its own.
package pki
