package pki

import (
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cloudflare/cfssl/config"
	"github.com/cloudflare/cfssl/csr"
)

// errAuthorityExpired means that nothing can be issued because the authority has expired.
var errAuthorityExpired = errors.New("the authority has expired")

// Issue generates a new key and a certificate for it, signed by the leaf's authority. It is
// valid from five minutes before now until validity after now (0 means one year), but never
// outside the authority's own period. The certificate is verified for its purpose before it is
// returned.
func (b *Bundle) Issue(l Leaf, now time.Time, validity time.Duration) (KeyPair, error) {
	pair, err := b.issue(l, now, validity)
	if err != nil {
		return KeyPair{}, fmt.Errorf("issue %s certificate: %w", l.Name, err)
	}
	return pair, nil
}

func (b *Bundle) issue(l Leaf, now time.Time, validity time.Duration) (KeyPair, error) {
	names, err := l.validate()
	if err != nil {
		return KeyPair{}, err
	}
	if b.External(l.Authority) {
		return b.signed(l, now)
	}
	held, err := b.authority(l.Authority)
	if err != nil {
		return KeyPair{}, err
	}
	authority, authorityKey, err := held.pair.authority()
	if err != nil {
		return KeyPair{}, fmt.Errorf("authority %s: %w", l.Authority, err)
	}
	notBefore, notAfter, err := period(authority, now, validity)
	if err != nil {
		return KeyPair{}, err
	}
	key, err := newKey(b.Algorithm)
	if err != nil {
		return KeyPair{}, err
	}
	certificate, err := signing{
		request:   l.request(names),
		key:       key,
		profile:   config.SigningProfile{Usage: certificateUsages(l.Usage.Names()...)},
		notBefore: notBefore,
		notAfter:  notAfter,
	}.by(authority, authorityKey)
	if err != nil {
		return KeyPair{}, err
	}
	if wrong := b.Check(l, certificate, now); len(wrong) > 0 {
		return KeyPair{}, fmt.Errorf("the result would be useless: %s", strings.Join(wrong, "; "))
	}
	chain, err := held.chain(now)
	if err != nil {
		return KeyPair{}, err
	}
	private, err := encodeKey(key)
	return KeyPair{Certificate: certificate + chain, PrivateKey: private}, err
}

// signed returns the pair that was signed externally for the leaf.
func (b *Bundle) signed(l Leaf, now time.Time) (KeyPair, error) {
	pair, ok := b.Signed[l.Name]
	if !ok {
		return KeyPair{}, fmt.Errorf("authority %s: %w, and no signed certificate is given for %s", l.Authority, ErrExternal,
			l.Name)
	}
	if wrong := b.Check(l, pair.Certificate, now); len(wrong) > 0 {
		return KeyPair{}, fmt.Errorf("the certificate that was signed cannot be used: %s", strings.Join(wrong, "; "))
	}
	return SignedPair(pair.Certificate, pair.PrivateKey)
}

// validate rejects a leaf that no certificate can satisfy.
func (l Leaf) validate() (hostNames, error) {
	if l.CommonName == "" {
		return hostNames{}, errors.New("common name is empty")
	}
	if l.Usage == 0 || l.Usage&^(Client|Server) != 0 {
		return hostNames{}, errors.New("usage is neither client nor server")
	}
	names, err := parseHosts(l.Hosts)
	if err != nil {
		return hostNames{}, err
	}
	if l.Usage&Server != 0 && len(names.all()) == 0 {
		return hostNames{}, errors.New("a server needs at least one host")
	}
	return names, nil
}

// period limits a leaf to its authority's period. Verifiers reject it outside that period
// anyway, and its expiry should show that.
func period(
	authority *x509.Certificate, now time.Time, validity time.Duration,
) (notBefore, notAfter time.Time, err error) {
	name := authority.Subject.CommonName
	if now.After(authority.NotAfter) {
		return notBefore, notAfter, fmt.Errorf("%w: %s ended on %s",
			errAuthorityExpired, name, authority.NotAfter.Format(time.RFC3339))
	}
	if now.Before(authority.NotBefore) {
		return notBefore, notAfter, fmt.Errorf("authority %s begins on %s, which is in the future: check the clock",
			name, authority.NotBefore.Format(time.RFC3339))
	}
	if validity < 0 {
		return notBefore, notAfter, fmt.Errorf("validity %s is negative", validity)
	}
	if validity == 0 {
		validity = leafValidity
	}
	notBefore, notAfter = now.Add(-backdate), now.Add(validity)
	if notBefore.Before(authority.NotBefore) {
		notBefore = authority.NotBefore
	}
	if notAfter.After(authority.NotAfter) {
		notAfter = authority.NotAfter
	}
	return notBefore, notAfter, nil
}

// Names returns the usages by their names in Kubernetes, which cfssl also uses, in kubeadm's
// order, server first.
func (u Usage) Names() []string {
	var names []string
	if u&Server != 0 {
		names = append(names, "server auth")
	}
	if u&Client != 0 {
		names = append(names, "client auth")
	}
	return names
}

func (l Leaf) request(names hostNames) csr.CertificateRequest {
	request := csr.CertificateRequest{CN: l.CommonName, Hosts: names.all()}
	for _, organization := range l.Organizations {
		request.Names = append(request.Names, csr.Name{O: organization})
	}
	return request
}
