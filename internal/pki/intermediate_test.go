package pki

import (
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"
)

// authorityBelow returns an authority signed by above, followed by above; a root if above is
// empty.
func authorityBelow(t testing.TB, above KeyPair, change func(*x509.Certificate)) KeyPair {
	t.Helper()
	key, err := newKey(ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "company"}, NotBefore: now.Add(-time.Hour),
		NotAfter: now.AddDate(5, 0, 0),
		IsCA:     true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, MaxPathLen: -1,
	}
	parent, parentKey := template, key
	if above.Certificate != "" {
		template.Subject.CommonName += " below " + parse(t, above.Certificate).Subject.CommonName
		if parent, parentKey, err = above.authority(); err != nil {
			t.Fatal(err)
		}
	}
	if change != nil {
		change(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	if err != nil {
		t.Fatal(err)
	}
	private, err := encodeKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return KeyPair{Certificate: encodePEM("CERTIFICATE", der) + above.Certificate, PrivateKey: private}
}

// again returns another certificate (PEM) of a root for the same key.
func again(t *testing.T, root KeyPair) string {
	t.Helper()
	c, key, err := root.authority()
	if err != nil {
		t.Fatal(err)
	}
	template := *c
	template.NotAfter = c.NotAfter.AddDate(1, 0, 0)
	der, err := x509.CreateCertificate(rand.Reader, &template, c, c.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return encodePEM("CERTIFICATE", der)
}

// TestIntermediateAuthority: a leaf is sent with the authorities between it and the root, so
// that a peer that knows any one of them accepts it.
func TestIntermediateAuthority(t *testing.T) {
	root := authorityBelow(t, KeyPair{}, nil)
	middle := authorityBelow(t, root, nil)
	issuing := authorityBelow(t, middle, nil)
	b := bundle(t)
	b.CA = issuing
	if err := b.Validate(); err != nil {
		t.Fatal(err)
	}
	text := issue(t, b, apiServer(), now, 0).Certificate
	if want := first(text) + first(issuing.Certificate) + first(middle.Certificate); text != want {
		t.Errorf("the file has %d certificates, want the leaf and both intermediate authorities, and not the root",
			strings.Count(text, "BEGIN"))
	}
	chain := chainOf(t, text)
	for name, roots := range map[string]string{
		"root": root.Certificate, "middle": first(middle.Certificate),
		"issuing": first(issuing.Certificate),
	} {
		if !Accepts(roots, chain, Server, now) {
			t.Errorf("not accepted by who trusts the %s alone", name)
		}
	}
	if Accepts(otherAuthorities(t), chain, Server, now) {
		t.Error("accepted by a stranger")
	}
	if b.Anchors(Kubernetes) != first(issuing.Certificate) {
		t.Error("clients of whatever else the root has signed are let in")
	}
	if b.Roots(Kubernetes) != issuing.Certificate {
		t.Error("the roots lack an issuer")
	}
	if wrong := b.Check(apiServer(), text, now); wrong != nil {
		t.Errorf("Check says %q", wrong)
	}
	sibling := authorityBelow(t, middle, nil)
	b.CA = sibling
	if wrong := b.Check(apiServer(), text, now); len(wrong) == 0 {
		t.Error("Check takes what another authority of the same root has signed")
	}
}

// otherAuthorities returns the authority of another cluster.
func otherAuthorities(t testing.TB) string {
	b := bundle(t)
	return b.CA.Certificate
}

// TestIntermediateAuthorityIsIntroduced: for peers that trust only the previous authority, the
// path leads over the cross certificate, which precedes the path to the root: OpenSSL follows
// the first issuer that matches and tries no other.
func TestIntermediateAuthorityIsIntroduced(t *testing.T) {
	root := authorityBelow(t, KeyPair{}, nil)
	issuing := authorityBelow(t, root, nil)
	before := encrypting(t)
	next := introduced()
	next.Authorities = map[Authority]KeyPair{Kubernetes: issuing}
	b, err := before.Rotate(map[Part]int{KubernetesPart: 1}, next, options())
	if err != nil {
		t.Fatal(err)
	}
	b = rotate(t, b, KubernetesPart, 2)
	text := issue(t, *b, apiServer(), now, 0).Certificate
	if want := first(text) + b.CARotation.Cross + first(issuing.Certificate); text != want {
		t.Error("the file is not the leaf, the cross certificate and the issuing authority")
	}
	chain := chainOf(t, text)
	for name, roots := range map[string]string{
		"the one before": before.CA.Certificate, "the root": root.Certificate, "the issuing one": first(issuing.Certificate),
		"all": b.Roots(Kubernetes),
	} {
		if !Accepts(roots, chain, Server, now) {
			t.Errorf("not accepted by who trusts %s", name)
		}
	}
	if want := before.CA.Certificate + issuing.Certificate; b.Roots(Kubernetes) != want {
		t.Error("other roots")
	}
}

func TestAuthoritiesOutOfOrder(t *testing.T) {
	root := authorityBelow(t, KeyPair{}, nil)
	middle := authorityBelow(t, root, nil)
	issuing := authorityBelow(t, middle, nil)
	parts := []string{first(issuing.Certificate), first(root.Certificate), first(middle.Certificate)}
	issuing.Certificate = strings.Join(parts, "")
	_, err := issuing.trusted()
	wantError(t, err, "is not followed by its issuer", issuing.PrivateKey)
	slices.Reverse(parts)
	issuing.Certificate = strings.Join(parts, "")
	_, err = issuing.trusted()
	wantError(t, err, "", issuing.PrivateKey)
}
