package pki

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func options() Options {
	return Options{ClusterName: "prod", Algorithm: ECDSAP256, Validity: authorityValidity, Now: now}
}

// encrypting is a bundle with all five parts.
func encrypting(t testing.TB) *Bundle {
	t.Helper()
	b := bundle(t)
	var err error
	if b.Encryption, err = (Encryption{Kind: Secretbox, Resources: []string{"secrets"}}).fresh(0); err != nil {
		t.Fatal(err)
	}
	return &b
}

// introduced is what is given with every rotation of these tests: encryption
// has to be said, the rest is made.
func introduced() Next {
	return Next{Encryption: Encryption{Kind: Secretbox, Resources: []string{"secrets"}}}
}

func rotate(t testing.TB, b *Bundle, p Part, to int) *Bundle {
	t.Helper()
	rotated, err := b.Rotate(map[Part]int{p: to}, introduced(), options())
	if err != nil {
		t.Fatal(err)
	}
	return rotated
}

// stagesOf is a bundle at generation 0 to last of a part.
func stagesOf(t testing.TB, b *Bundle, p Part, last int) []*Bundle {
	t.Helper()
	all := []*Bundle{b}
	for generation := 1; generation <= last; generation++ {
		all = append(all, rotate(t, all[generation-1], p, generation))
	}
	return all
}

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

func TestValidateRotation(t *testing.T) {
	for _, test := range []struct {
		from, to int
		words    string
	}{
		{0, 0, ""},
		{0, 1, ""},
		{1, 2, ""},
		{2, 3, ""},
		{3, 4, ""},
		{1, 0, ""},
		{2, 1, ""},
		{3, 2, ""},
		{0, -1, "rotation of etcd: -1 is negative"},
		{0, 2, "from 0 to 2 skips a stage: apply 1 first"},
		{1, 7, "from 1 to 7 skips a stage: apply 2 first"},
		{5, 3, "from 5 back to 3 skips a stage: apply 4 first"},
	} {
		err := ValidateRotation(EtcdPart, test.from, test.to)
		if test.words == "" {
			if err != nil {
				t.Errorf("%d to %d: %v", test.from, test.to, err)
			}
			continue
		}
		wantError(t, err, test.words)
	}
}

func TestStageOf(t *testing.T) {
	for generation, want := range []Stage{Steady, Introduced, Adopted, Steady, Introduced, Adopted, Steady} {
		if got := StageOf(generation); got != want {
			t.Errorf("%d is stage %d, want %d", generation, got, want)
		}
	}
}

// TestRotateEachPart takes each part forth through two rotations: the others stay
// as they are, and each stage survives as text.
func TestRotateEachPart(t *testing.T) {
	for _, p := range Parts() {
		t.Run(string(p), func(t *testing.T) {
			first := encrypting(t)
			for generation, b := range stagesOf(t, first, p, 6) {
				if b.Generation(p) != generation {
					t.Errorf("generation %d says %d", generation, b.Generation(p))
				}
				others := slices.DeleteFunc(Parts(), func(other Part) bool { return other == p })
				if !b.Same(first, others...) {
					t.Errorf("at %d other parts are changed", generation)
				}
				if same := b.Same(first, p); same != (generation == 0) {
					t.Errorf("at %d the part is the same: %t", generation, same)
				}
				read, err := Parse(encode(t, b), nil)
				if err != nil || !reflect.DeepEqual(read, b) {
					t.Errorf("at %d the text is another bundle: %v", generation, err)
				}
			}
			if first.Generation(p) != 0 {
				t.Error("Rotate changes the bundle that it rotates")
			}
		})
	}
}

// TestRotateBack: back within a rotation the same two are there; back from its
// last stage the older one is trusted again, but makes nothing any more.
func TestRotateBack(t *testing.T) {
	for _, p := range Parts() {
		t.Run(string(p), func(t *testing.T) {
			all := stagesOf(t, encrypting(t), p, 4)
			back := rotate(t, all[1], p, 0)
			if !back.Same(all[0], Parts()...) {
				t.Error("back from 1 it is not what it was at 0")
			}
			if back := rotate(t, all[2], p, 1); !back.Same(all[1], Parts()...) {
				t.Error("back from 2 it is not what it was at 1")
			}
			last := rotate(t, all[3], p, 2)
			if trustOf(last, p) != trustOf(all[2], p) {
				t.Error("back from 3 another one is trusted than at 2")
			}
			_, err := last.Rotate(map[Part]int{p: 1}, introduced(), options())
			if p == EncryptionPart {
				if err != nil {
					t.Errorf("its key is kept, and yet there is no way back to 1: %v", err)
				}
			} else {
				wantError(t, err, "rotation of "+string(p)+" to 1: the key of the previous one is gone: only the way forward is open")
			}
			if again := rotate(t, last, p, 3); !again.Same(all[3], Parts()...) {
				t.Error("forth again it is not what it was at 3")
			}
			again := rotate(t, all[4], p, 3)
			_, err = again.Rotate(map[Part]int{p: 2}, introduced(), options())
			wantError(t, err, "nothing is left of the previous one: only the way forward is open")
			_, err = all[0].Rotate(map[Part]int{p: -1}, introduced(), options())
			wantError(t, err, "negative")
			_, err = all[0].Rotate(map[Part]int{p: 2}, introduced(), options())
			wantError(t, err, "skips a stage")
		})
	}
}

// trustOf is what who verifies or reads is given of a part, without regard to
// order where it does not matter.
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

// TestAdoptedIsAccepted: what is issued when the next one is adopted is accepted
// by who trusts only the old one, only the new one, and both.
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

// TestKeysThatGo: an authority's or service account's old key is gone after the
// last stage, and one of encryption stays for what old backups hold.
func TestKeysThatGo(t *testing.T) {
	first := encrypting(t)
	for p, secret := range map[Part]string{
		KubernetesPart: first.CA.PrivateKey, EtcdPart: first.EtcdCA.PrivateKey, FrontProxyPart: first.FrontProxyCA.PrivateKey,
		ServiceAccountPart: first.ServiceAccount.PrivateKey, EncryptionPart: first.Encryption.Key,
	} {
		for generation, b := range stagesOf(t, first, p, 4) {
			text, err := b.Encode(nil)
			if err != nil {
				t.Fatal(err)
			}
			want := generation < 3 || p == EncryptionPart && generation == 3
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
			if c.CheckSignatureFrom(old) != nil || !samePublicKey(c.PublicKey, next.PublicKey) || c.Subject.String() != next.Subject.String() {
				t.Error("it is not the next one's, signed by the old one")
			}
			if c.NotAfter.After(old.NotAfter) || c.NotBefore.Before(old.NotBefore) || c.SerialNumber.Cmp(next.SerialNumber) == 0 {
				t.Errorf("it is valid from %s to %s, with number %s", c.NotBefore, c.NotAfter, c.SerialNumber)
			}
		})
	}
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

func TestRotateRefusesTheSameKey(t *testing.T) {
	b := encrypting(t)
	for name, test := range map[string]struct {
		part  Part
		next  Next
		words string
	}{
		"the authority itself": {
			KubernetesPart,
			Next{Authorities: map[Authority]KeyPair{Kubernetes: b.CA}},
			"authority kubernetes and the other authority kubernetes have the same key",
		},
		"another authority": {
			EtcdPart,
			Next{Authorities: map[Authority]KeyPair{Etcd: b.CA}},
			"authority kubernetes and the other authority etcd have the same key",
		},
		"the service account itself": {
			ServiceAccountPart,
			Next{ServiceAccount: b.ServiceAccount},
			"service account and the other service account have the same key",
		},
		"an authority as service account": {
			ServiceAccountPart,
			Next{ServiceAccount: KeyPair{PublicKey: publicKey(t, b.CA), PrivateKey: b.CA.PrivateKey}},
			"authority kubernetes and the other service account have the same key",
		},
	} {
		t.Run(name, func(t *testing.T) {
			test.next.Encryption = introduced().Encryption
			_, err := b.Rotate(map[Part]int{test.part: 1}, test.next, options())
			wantError(t, err, test.words, b.CA.PrivateKey, b.ServiceAccount.PrivateKey)
		})
	}
}

func TestRotationLacksTheOther(t *testing.T) {
	for _, p := range Parts() {
		b := stagesOf(t, encrypting(t), p, 1)[1]
		b.CARotation.Other, b.EtcdCARotation.Other, b.FrontProxyCARotation.Other = nil, nil, nil
		b.ServiceAccountRotation.Other, b.EncryptionRotation.Other = nil, nil
		wantError(t, b.Validate(), "generation 1 lacks the other one of its rotation")
	}
}

// TestGenerateAt: a new bundle may begin with the numbers that the configuration
// has, between two rotations.
func TestGenerateAt(t *testing.T) {
	o := options()
	o.Given = introduced()
	o.Generations = map[Part]int{KubernetesPart: 3, EncryptionPart: 6, ServiceAccountPart: 3}
	b, err := Generate(o)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.Generations(); got[KubernetesPart] != 3 || got[EncryptionPart] != 6 || got[EtcdPart] != 0 {
		t.Errorf("it begins at %v", got)
	}
	for _, p := range []Part{KubernetesPart, EncryptionPart, ServiceAccountPart} {
		rotate(t, b, p, b.Generation(p)+1)
		_, err := b.Rotate(map[Part]int{p: b.Generation(p) - 1}, introduced(), o)
		wantError(t, err, "nothing is left of the previous one")
	}
	for _, generation := range []int{-3, 1, 2, 4} {
		o.Generations = map[Part]int{EtcdPart: generation}
		_, err := Generate(o)
		wantError(t, err, "cannot begin at")
	}
}

// TestRandomRotations walks random legal steps of all parts. Whatever the walk,
// two neighbours accept what each other issues and read what each other writes,
// and each can issue.
func TestRandomRotations(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	b := encrypting(t)
	for range 60 {
		p := Parts()[random.IntN(len(Parts()))]
		to := b.Generation(p) + 1 - 2*random.IntN(2)
		next, err := b.Rotate(map[Part]int{p: to}, introduced(), options())
		if err != nil {
			if to > b.Generation(p) {
				t.Fatalf("the way forward of %s from %d: %v", p, b.Generation(p), err)
			}
			continue // whether it is open: TestRotateBack
		}
		neighbours(t, p, b, next)
		b = next
	}
}

// neighbours checks that machines at two stages work together.
func neighbours(t *testing.T, p Part, b, next *Bundle) {
	t.Helper()
	at := fmt.Sprintf("%s from %d to %d", p, b.Generation(p), next.Generation(p))
	for _, pair := range [][2]*Bundle{{b, next}, {next, b}} {
		maker, reader := pair[0], pair[1]
		for _, l := range []Leaf{apiServer(), APIServerKubeletClient(), EtcdPeer("cp1", "10.0.0.11"), FrontProxyClient()} {
			chain := chainOf(t, issue(t, *maker, l, now, 0).Certificate)
			for name, trust := range map[string]string{"anchors": reader.Anchors(l.Authority), "roots": reader.Roots(l.Authority), "known": reader.Known(l.Authority)} {
				if !Accepts(trust, chain, l.Usage, now) {
					t.Fatalf("%s: %s of one is not accepted by the %s of the other", at, l.Name, name)
				}
			}
		}
		if !strings.Contains(reader.PublicKeys(), maker.ServiceAccount.PublicKey) {
			t.Fatalf("%s: tokens of one are not accepted by the other", at)
		}
		if !slices.ContainsFunc(reader.Encryptions(), func(e Encryption) bool { return reflect.DeepEqual(e, maker.Encryptions()[0]) }) {
			t.Fatalf("%s: what one writes the other cannot read", at)
		}
	}
	if err := next.Validate(); err != nil {
		t.Fatalf("%s: %v", at, err)
	}
}

func TestConflict(t *testing.T) {
	first := encrypting(t)
	all := stagesOf(t, first, KubernetesPart, 2)
	other := authorityBelow(t, KeyPair{}, nil)
	given := func(k KeyPair) Next {
		next := introduced()
		next.Authorities = map[Authority]KeyPair{Kubernetes: k}
		return next
	}
	none := introduced()
	none.Encryption.Kind = AESCBC
	account, err := newServiceAccount(ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	signs := introduced()
	signs.ServiceAccount = account
	for name, test := range map[string]struct {
		b     *Bundle
		given Next
		at    map[Part]int
		words string
	}{
		"nothing is given":               {first, introduced(), nil, ""},
		"the one in use":                 {first, given(first.CA), nil, ""},
		"another authority":              {first, given(other), nil, "kubernetes is another one than the cluster has: changing it takes a rotation; raise rotation.kubernetes from 0 to 1"},
		"another authority, introduced":  {first, given(other), map[Part]int{KubernetesPart: 1}, ""},
		"the old one during a rotation":  {all[1], given(first.CA), nil, "finish that rotation first"},
		"the next one during a rotation": {all[1], given(all[2].CA), nil, ""},
		"the next one, adopted":          {all[2], given(all[2].CA), nil, ""},
		"back to the old one":            {all[1], given(first.CA), map[Part]int{KubernetesPart: 0}, ""},
		"another service account":        {first, signs, nil, "raise rotation.service_account from 0 to 1"},
		"another encryption":             {first, none, nil, "raise rotation.encryption from 0 to 1"},
		"another encryption, introduced": {first, none, map[Part]int{EncryptionPart: 1}, ""},
	} {
		after, err := test.b.Rotate(test.at, test.given, Options{Algorithm: ECDSAP256, Validity: time.Hour, Now: now})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		err = after.Conflict(test.given)
		if test.words == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		wantError(t, err, test.words, account.PrivateKey)
	}
}

func TestExpiring(t *testing.T) {
	b := encrypting(t)
	if got := b.Expiring(time.Hour, now); got != nil {
		t.Errorf("ten years before the end: %q", got)
	}
	want := []string{
		`the kubernetes authority "kubernetes" ends on 2036-02-27`,
		`the etcd authority "etcd-ca" ends on 2036-02-27`,
		`the front-proxy authority "front-proxy-ca" ends on 2036-02-27`,
	}
	if got := b.Expiring(time.Hour, now.Add(authorityValidity-time.Minute)); !slices.Equal(got, want) {
		t.Errorf("at the end: %q", got)
	}
}
