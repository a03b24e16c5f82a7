package pki

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func chainOf(t testing.TB, certificates string) []*x509.Certificate {
	t.Helper()
	var chain []*x509.Certificate
	for block, rest := pem.Decode([]byte(certificates)); block != nil; block, rest = pem.Decode(rest) {
		c, err := parseCertificate(block)
		if err != nil {
			t.Fatal(err)
		}
		chain = append(chain, c)
	}
	return chain
}

// trustOf returns what verifiers or readers receive of a part, in any order where the order
// does not matter.
func trustOf(b *Bundle, p Part) string {
	switch p {
	case ServiceAccountPart:
		return b.PublicKeys()
	case EncryptionPart:
		var keys []string
		for _, e := range b.Encryptions() {
			keys = append(keys, e.Name+e.Key)
		}
		return strings.Join(slices.Sorted(slices.Values(keys)), " ")
	}
	return b.Anchors(Authority(p)) + b.Roots(Authority(p))
}

// TestTrustAtEachStage: what each stage verifies with, and issues from.
func TestTrustAtEachStage(t *testing.T) {
	for _, a := range []Authority{Kubernetes, Etcd, FrontProxy} {
		t.Run(string(a), func(t *testing.T) {
			all := stagesOf(t, encrypting(t), Part(a), 4)
			first, second, third := all[0].Signing(a), all[3].Signing(a), otherOf(t, all[4], a)
			for generation, want := range []struct{ anchors, known, signing string }{
				{first, first, first},
				{first + second, first + second, first},
				{first + second, first + second, second},
				{second, first + second, second},
				{second + third, second + third, second},
			} {
				b := all[generation]
				if b.Anchors(a) != want.anchors || b.Roots(a) != want.anchors {
					t.Errorf("at %d other anchors or roots", generation)
				}
				if b.Known(a) != want.known {
					t.Errorf("at %d others are known", generation)
				}
				if b.Signing(a) != want.signing {
					t.Errorf("at %d another one signs", generation)
				}
				if b.External(a) {
					t.Errorf("at %d its key is said to be elsewhere", generation)
				}
			}
			for number, text := range []string{second, third} {
				if got, want := mustInspect(t, text).CommonName, fmt.Sprintf("%s-%d", commonNames[a], number+2); got != want {
					t.Errorf("authority %d is named %q, want %q", number+2, got, want)
				}
			}
		})
	}
	if b := encrypting(t); b.Anchors("x")+b.Roots("x")+b.Known("x")+b.Signing("x") != "" || b.External("x") {
		t.Error("an authority that is not there is trusted")
	}
}

func otherOf(t testing.TB, b *Bundle, a Authority) string {
	t.Helper()
	held, err := b.authority(a)
	if err != nil || held.rotation.Other == nil {
		t.Fatalf("no other %s: %v", a, err)
	}
	return held.rotation.Other.Certificate
}

func TestServiceAccountAtEachStage(t *testing.T) {
	all := stagesOf(t, encrypting(t), ServiceAccountPart, 3)
	first, second := all[0].ServiceAccount, all[3].ServiceAccount
	for generation, want := range []struct {
		signs KeyPair
		keys  string
	}{
		{first, first.PublicKey},
		{first, first.PublicKey + second.PublicKey},
		{second, first.PublicKey + second.PublicKey},
		{second, second.PublicKey},
	} {
		if b := all[generation]; b.ServiceAccount != want.signs || b.PublicKeys() != want.keys {
			t.Errorf("at %d another key signs or verifies", generation)
		}
	}
}

// TestAdoptedIsAccepted: a certificate issued when the next authority is adopted is accepted by
// peers that trust only the old one, only the new one, or both.
func TestAdoptedIsAccepted(t *testing.T) {
	all := stagesOf(t, encrypting(t), KubernetesPart, 3)
	leaf := func(generation int) []*x509.Certificate {
		return chainOf(t, issue(t, *all[generation], apiServer(), now, 0).Certificate)
	}
	roots := func(generation int) string { return all[generation].Roots(Kubernetes) }
	both := roots(1)
	if roots(2) != both || all[1].Anchors(Kubernetes) != all[2].Anchors(Kubernetes) {
		t.Error("adopting the next one changes what is trusted")
	}
	for _, test := range []struct {
		name  string
		roots string
		leaf  []*x509.Certificate
		want  bool
	}{
		{"introduced, by the old one", roots(0), leaf(1), true},
		{"introduced, by the new one", roots(3), leaf(1), false},
		{"adopted, by the old one", roots(0), leaf(2), true},
		{"adopted, by both", both, leaf(2), true},
		{"adopted, by the new one", roots(3), leaf(2), true},
		{"adopted, without its chain, by the old one", roots(0), leaf(2)[:1], false},
		{"steady again, by the old one", roots(0), leaf(3), true},
		{"steady again, by the new one", roots(3), leaf(3), true},
		{"of before, by both", both, leaf(0), true},
		{"of before, after the rotation", roots(3), leaf(0), false},
		{"no certificate", both, nil, false},
		{"no roots", "", leaf(0), false},
	} {
		if got := Accepts(test.roots, test.leaf, Server, now); got != test.want {
			t.Errorf("%s: accepted %t", test.name, got)
		}
		if Accepts(test.roots, test.leaf, Client, now) {
			t.Errorf("%s: a server is accepted as a client", test.name)
		}
	}
	if n := len(leaf(2)); n != 2 {
		t.Errorf("%d certificates are shown at Adopted, want the leaf and the cross certificate", n)
	}
	if old := issue(t, *all[0], apiServer(), now, 0).Certificate; len(all[3].Check(apiServer(), old, now)) == 0 {
		t.Error("a certificate of before is good after the rotation")
	}
}

// TestAdoptedExternalIsAccepted: peers that trust only the old authority accept a certificate that was signed elsewhere
// with the key of the next one.
func TestAdoptedExternalIsAccepted(t *testing.T) {
	before, held := encrypting(t), authorityBelow(t, KeyPair{}, nil)
	next := introduced()
	next.Authorities = map[Authority]KeyPair{Kubernetes: {Certificate: held.Certificate}}
	b, err := before.Rotate(map[Part]int{KubernetesPart: 1}, next, options())
	if err != nil {
		t.Fatal(err)
	}
	b = rotate(t, b, KubernetesPart, 2)
	request, key, err := b.Request(apiServer())
	if err != nil {
		t.Fatal(err)
	}
	leaf := signExternally(t, held, request, Server, nil)
	for name, certificates := range map[string]string{
		"the leaf": leaf, "with its authority": leaf + held.Certificate,
		"with the cross certificate": leaf + held.Certificate + b.CARotation.Cross,
	} {
		if err := b.AddSigned(apiServer(), certificates, key, now); err != nil {
			t.Fatal(err)
		}
		text := issue(t, *b, apiServer(), now, 0).Certificate
		chain := chainOf(t, text)
		if !strings.HasPrefix(text, leaf+b.CARotation.Cross) || strings.Count(text, b.CARotation.Cross) != 1 {
			t.Errorf("%s: the cross certificate does not follow the leaf", name)
		}
		for trust, roots := range map[string]string{
			"the old one": before.Roots(Kubernetes), "the next one": held.Certificate, "both": b.Roots(Kubernetes),
		} {
			if !Accepts(roots, chain, Server, now) {
				t.Errorf("%s: not accepted by who trusts %s", name, trust)
			}
		}
		if wrong := b.Check(apiServer(), text, now); len(wrong) > 0 {
			t.Errorf("%s: what was issued differs from it: %q", name, wrong)
		}
	}
	later := parse(t, b.CARotation.Cross).NotAfter.Add(time.Second)
	if err := b.AddSigned(apiServer(), leaf+b.CARotation.Cross, key, later); err != nil ||
		b.Signed["apiserver"].Certificate != leaf {
		t.Errorf("a cross certificate that has expired is shown: %v", err)
	}
}

// TestLosesKeys: the old key of an authority or of the service accounts is gone after the last
// stage; an old encryption key stays until the next rotation has ended, because old backups may need it.
func TestLosesKeys(t *testing.T) {
	first := encrypting(t)
	for p, secret := range map[Part]string{
		KubernetesPart: first.CA.PrivateKey, EtcdPart: first.EtcdCA.PrivateKey, FrontProxyPart: first.FrontProxyCA.PrivateKey,
		ServiceAccountPart: first.ServiceAccount.PrivateKey, EncryptionPart: first.Encryption.Key,
	} {
		for generation, b := range stagesOf(t, first, p, 6) {
			text, err := b.Encode(nil)
			if err != nil {
				t.Fatal(err)
			}
			want := generation < 3 || p == EncryptionPart && generation < 6
			if got := strings.Contains(text, strings.ReplaceAll(strings.TrimSpace(secret), "\n", `\n`)); got != want {
				t.Errorf("%s at %d: the first key is there %t, want %t", p, generation, got, want)
			}
		}
	}
}

func TestCross(t *testing.T) {
	later := options()
	later.Now = now.Add(authorityValidity + time.Hour)
	for name, test := range map[string]struct {
		change func(b *Bundle)
		at     Options
		want   bool
	}{
		"as always":                     {func(*Bundle) {}, options(), true},
		"the old key is held elsewhere": {func(b *Bundle) { b.CA.PrivateKey = "" }, options(), false},
		"the old one has expired":       {func(*Bundle) {}, later, false},
		"the old one may sign no authority": {func(b *Bundle) {
			b.CA = authorityBelow(t, KeyPair{}, func(c *x509.Certificate) { c.MaxPathLen, c.MaxPathLenZero = 0, true })
		}, options(), false},
		"the old one may sign one below": {func(b *Bundle) {
			b.CA = authorityBelow(t, KeyPair{}, func(c *x509.Certificate) { c.MaxPathLen = 1 })
		}, options(), true},
	} {
		t.Run(name, func(t *testing.T) {
			b := encrypting(t)
			test.change(b)
			rotated, err := b.Rotate(map[Part]int{KubernetesPart: 1}, introduced(), test.at)
			if err != nil {
				t.Fatal(err)
			}
			cross := rotated.CARotation.Cross
			if (cross != "") != test.want {
				t.Fatalf("there is a cross certificate: %t", cross != "")
			}
			if !test.want {
				return
			}
			old, next, c := parse(t, b.CA.Certificate), parse(t, rotated.CARotation.Other.Certificate), parse(t, cross)
			if c.CheckSignatureFrom(old) != nil || !samePublicKey(c.PublicKey, next.PublicKey) ||
				c.Subject.String() != next.Subject.String() {
				t.Error("it is not the next one's, signed by the old one")
			}
			if c.NotAfter.After(old.NotAfter) || c.NotBefore.Before(old.NotBefore) ||
				c.SerialNumber.Cmp(next.SerialNumber) == 0 {
				t.Errorf("it is valid from %s to %s, with number %s", c.NotBefore, c.NotAfter, c.SerialNumber)
			}
		})
	}
	t.Run("on the way back there is none to sign", func(t *testing.T) {
		b := encrypting(t)
		b.CA.PrivateKey = ""
		for _, to := range []int{1, 2, 1, 2} {
			b = rotate(t, b, KubernetesPart, to)
			if b.CARotation.Cross != "" {
				t.Errorf("at %d there is a cross certificate, and the key of the old one is held elsewhere", to)
			}
		}
	})
	t.Run("an expired one is shown no more", func(t *testing.T) {
		short := options()
		short.Validity = time.Hour
		b, err := Generate(short)
		if err != nil {
			t.Fatal(err)
		}
		adopted := rotate(t, rotate(t, b, KubernetesPart, 1), KubernetesPart, 2)
		for after, want := range map[time.Duration]int{time.Minute: 2, 2 * time.Hour: 1} {
			if n := len(chainOf(t, issue(t, *adopted, apiServer(), now.Add(after), 0).Certificate)); n != want {
				t.Errorf("after %s: %d certificates, want %d", after, n, want)
			}
		}
	})
}
