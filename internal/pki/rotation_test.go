package pki

import (
	"crypto/x509"
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

// encrypting returns a bundle with all five parts.
func encrypting(t testing.TB) *Bundle {
	t.Helper()
	b := bundle(t)
	var err error
	secretbox := Encryption{Kind: Secretbox, Resources: []string{"secrets"}}
	if b.Encryption, err = secretbox.fresh(0, nil); err != nil {
		t.Fatal(err)
	}
	return &b
}

// introduced returns the input of every rotation in these tests: encryption must be specified,
// the rest is generated.
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

// stagesOf returns a bundle at generation 0 to last of a part.
func stagesOf(t testing.TB, b *Bundle, p Part, last int) []*Bundle {
	t.Helper()
	all := []*Bundle{b}
	for generation := 1; generation <= last; generation++ {
		all = append(all, rotate(t, all[generation-1], p, generation))
	}
	return all
}

func TestValidateRotation(t *testing.T) {
	for _, test := range []struct {
		from, to int
		wantErr  string
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
		if test.wantErr == "" {
			if err != nil {
				t.Errorf("%d to %d: %v", test.from, test.to, err)
			}
			continue
		}
		wantError(t, err, test.wantErr)
	}
}

func TestStageOf(t *testing.T) {
	for generation, want := range []Stage{Steady, Introduced, Adopted, Steady, Introduced, Adopted, Steady} {
		if got := StageOf(generation); got != want {
			t.Errorf("%d is stage %d, want %d", generation, got, want)
		}
	}
}

// TestRotateEachPart moves each part forward through two rotations: the other parts do not
// change, and each stage can be encoded and parsed.
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

// TestRotateBack: going back within a rotation restores the same two. Going back from its last
// stage, the older one is trusted again, but issues nothing any more.
func TestRotateBack(t *testing.T) {
	for _, p := range Parts() {
		t.Run(string(p), func(t *testing.T) {
			all := stagesOf(t, encrypting(t), p, 4)
			back := rotate(t, all[1], p, 0)
			back.CARotation.Withdrawn = "" // see TestWithdrawn
			back.WithdrawnKeys = nil       // see TestWithdrawnKeys
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
				wantError(t, err, "rotation of "+string(p)+
					" to 1: the key of the previous one is gone: only the way forward is open")
			}
			if again := rotate(t, last, p, 3); !again.Same(all[3], Parts()...) {
				t.Error("forth again it is not what it was at 3")
			}
			again := rotate(t, all[4], p, 3)
			switch back, err := again.Rotate(map[Part]int{p: 2}, introduced(), options()); {
			case p != EncryptionPart:
				wantError(t, err, "nothing is left of the previous one: only the way forward is open")
			case err != nil || trustOf(back, p) != trustOf(all[2], p):
				t.Errorf("its key is kept, and yet there is no way back to 2: %v", err)
			}
			_, err = all[0].Rotate(map[Part]int{p: -1}, introduced(), options())
			wantError(t, err, "negative")
			_, err = all[0].Rotate(map[Part]int{p: 2}, introduced(), options())
			wantError(t, err, "skips a stage")
		})
	}
}

// TestWithdrawn: a Kubernetes authority that was taken back is known, without its key, until a rotation after it has
// ended and the next one begins. It is neither trusted nor used to connect.
func TestWithdrawn(t *testing.T) {
	first := encrypting(t)
	next := rotate(t, first, KubernetesPart, 1)
	withdrawn, key := next.CARotation.Other.Certificate, next.CARotation.Other.PrivateKey
	b := rotate(t, next, KubernetesPart, 0)
	if b.Anchors(Kubernetes)+b.Known(Kubernetes) != first.Anchors(Kubernetes)+first.Known(Kubernetes) {
		t.Error("it is still trusted")
	}
	if text := encode(t, b); strings.Contains(text, strings.Split(key, "\n")[1]) {
		t.Error("its key is kept")
	}
	second := ""
	for i, step := range []struct {
		to   int
		want func() string
	}{
		{1, func() string { return withdrawn }},
		{0, func() string { return withdrawn + second }},
		{1, func() string { return withdrawn + second }},
		{2, func() string { return withdrawn + second }},
		{3, func() string { return withdrawn + second }},
		{2, func() string { return withdrawn + second }},
		{3, func() string { return withdrawn + second }},
		{4, func() string { return "" }},
	} {
		b = rotate(t, b, KubernetesPart, step.to)
		if i == 0 {
			second = b.CARotation.Other.Certificate
		}
		if got := b.Withdrawn(Kubernetes); got != step.want() {
			t.Errorf("step %d, to %d: withdrawn are\n%s", i, step.to, got)
		}
		if read, err := Parse(encode(t, b), nil); err != nil || !reflect.DeepEqual(read, b) {
			t.Errorf("step %d, to %d: the text is another bundle: %v", i, step.to, err)
		}
	}
	supplied := Next{Authorities: map[Authority]KeyPair{Kubernetes: authorityBelow(t, KeyPair{}, nil)}}
	supplied.Encryption = first.Encryption
	b = first
	for _, to := range []int{1, 0, 1, 0} {
		var err error
		if b, err = b.Rotate(map[Part]int{KubernetesPart: to}, supplied, options()); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(CertificatesIn(b.Withdrawn(Kubernetes))); n != 1 {
		t.Errorf("the same one, taken back twice, is there %d times", n)
	}
	if b := rotate(t, rotate(t, first, EtcdPart, 1), EtcdPart, 0); b.Withdrawn(Etcd)+b.Withdrawn("x") != "" {
		t.Error("an authority is kept of which nobody has a copy of its own")
	}
	b.CARotation.Withdrawn = key
	wantError(t, b.Validate(), "those that were withdrawn", key)
}

// TestAt: a bundle knows the stages beside its own, except what the next rotation introduces, and what is gone.
func TestAt(t *testing.T) {
	for _, p := range Parts() {
		all := stagesOf(t, encrypting(t), p, 4)
		for generation, b := range all {
			for to := range all {
				there, known := b.At(p, to)
				apart := max(to-generation, generation-to)
				if want := apart <= 1 && (to <= generation || StageOf(generation) != Steady); known != want {
					t.Errorf("%s: %d is known at %d: %t", p, to, generation, known)
				}
				if known && trustOf(there, p) != trustOf(all[to], p) {
					t.Errorf("%s: at %d, another one is trusted at %d", p, generation, to)
				}
			}
		}
		if again := rotate(t, all[4], p, 3); isUnknown(again.At(p, 2)) != (p != EncryptionPart) {
			t.Errorf("%s: whether a stage is known does not follow from whether its other one is gone", p)
		}
	}
}

func isUnknown(_ *Bundle, known bool) bool { return !known }

func TestRotateRefusesTheSameKey(t *testing.T) {
	b := encrypting(t)
	for name, test := range map[string]struct {
		part    Part
		next    Next
		wantErr string
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
			wantError(t, err, test.wantErr, b.CA.PrivateKey, b.ServiceAccount.PrivateKey)
		})
	}
}

func TestRotationMissesOtherAuthority(t *testing.T) {
	for _, p := range Parts() {
		b := stagesOf(t, encrypting(t), p, 1)[1]
		b.CARotation.Other, b.EtcdCARotation.Other, b.FrontProxyCARotation.Other = nil, nil, nil
		b.ServiceAccountRotation.Other, b.EncryptionRotation.Other = nil, nil
		wantError(t, b.Validate(), "generation 1 lacks the other one of its rotation")
	}
}

// TestGenerateAt: a new bundle may start with the numbers in the configuration, between two
// rotations.
func TestGenerateAt(t *testing.T) {
	o := options()
	o.Supplied = introduced()
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

// TestRandomRotations makes random valid steps of all parts. In each sequence, two adjacent
// stages accept what the other issues and read what the other writes, and each can issue.
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
			continue // TestRotateBack covers whether that step is possible
		}
		checkAdjacentStages(t, p, b, next)
		b = next
	}
}

// checkAdjacentStages checks that machines at two adjacent stages are compatible.
func checkAdjacentStages(t *testing.T, p Part, b, next *Bundle) {
	t.Helper()
	at := fmt.Sprintf("%s from %d to %d", p, b.Generation(p), next.Generation(p))
	for _, pair := range [][2]*Bundle{{b, next}, {next, b}} {
		maker, reader := pair[0], pair[1]
		for _, l := range []Leaf{apiServer(), APIServerKubeletClient(), EtcdPeer("cp1", "10.0.0.11"), FrontProxyClient()} {
			chain := chainOf(t, issue(t, *maker, l, now, 0).Certificate)
			for name, trust := range map[string]string{
				"anchors": reader.Anchors(l.Authority),
				"roots":   reader.Roots(l.Authority), "known": reader.Known(l.Authority),
			} {
				if !Accepts(trust, chain, l.Usage, now) {
					t.Fatalf("%s: %s of one is not accepted by the %s of the other", at, l.Name, name)
				}
			}
		}
		if !strings.Contains(reader.PublicKeys(), maker.ServiceAccount.PublicKey) {
			t.Fatalf("%s: tokens of one are not accepted by the other", at)
		}
		if !slices.ContainsFunc(reader.Encryptions(), func(e Encryption) bool {
			return reflect.DeepEqual(e, maker.Encryptions()[0])
		}) {
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
	supplied := func(k KeyPair) Next {
		next := introduced()
		next.Authorities = map[Authority]KeyPair{Kubernetes: k}
		return next
	}
	root := authorityBelow(t, KeyPair{}, nil)
	chained := *first
	chained.CA = authorityBelow(t, root, nil)
	alone := chained
	alone.CA.Certificate = strings.TrimSuffix(chained.CA.Certificate, root.Certificate)
	renewed := KeyPair{Certificate: alone.CA.Certificate + again(t, root), PrivateKey: chained.CA.PrivateKey}
	none := introduced()
	none.Encryption.Kind = AESCBC
	account, err := newServiceAccount(ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	signs := introduced()
	signs.ServiceAccount = account
	for name, test := range map[string]struct {
		b        *Bundle
		supplied Next
		at       map[Part]int
		wantErr  string
	}{
		"nothing is given": {first, introduced(), nil, ""},
		"the one in use":   {first, supplied(first.CA), nil, ""},
		"another authority": {
			first, supplied(other), nil,
			"kubernetes is another one than the cluster has: changing it takes a rotation; raise rotation.kubernetes from 0 " +
				"to 1",
		},
		"another authority, introduced":  {first, supplied(other), map[Part]int{KubernetesPart: 1}, ""},
		"the old one during a rotation":  {all[1], supplied(first.CA), nil, "finish that rotation first"},
		"the next one during a rotation": {all[1], supplied(all[2].CA), nil, ""},
		"the next one, adopted":          {all[2], supplied(all[2].CA), nil, ""},
		"back to the old one":            {all[1], supplied(first.CA), map[Part]int{KubernetesPart: 0}, ""},
		"the same issuers":               {&chained, supplied(chained.CA), nil, ""},
		"an issuer renewed":              {&chained, supplied(renewed), nil, "kubernetes has other issuers"},
		"no issuers any more":            {&chained, supplied(alone.CA), nil, "kubernetes has other issuers"},
		"issuers that no machine had":    {&alone, supplied(chained.CA), nil, ""},
		"another service account":        {first, signs, nil, "raise rotation.service_account from 0 to 1"},
		"another encryption":             {first, none, nil, "raise rotation.encryption from 0 to 1"},
		"another encryption, introduced": {first, none, map[Part]int{EncryptionPart: 1}, ""},
	} {
		after, err := test.b.Rotate(test.at, test.supplied, Options{Algorithm: ECDSAP256, Validity: time.Hour, Now: now})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		err = after.Conflict(test.supplied)
		if test.wantErr == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		wantError(t, err, test.wantErr, account.PrivateKey)
	}
	if !slices.Equal(alone.WithoutIssuers(supplied(chained.CA)), []Authority{Kubernetes}) ||
		len(chained.WithoutIssuers(supplied(renewed)))+len(chained.WithoutIssuers(supplied(chained.CA))) > 0 {
		t.Error("WithoutIssuers")
	}
}

// TestKMSWithOtherResources: API servers cannot have the plugin twice, which they would need for a while.
func TestKMSWithOtherResources(t *testing.T) {
	both, secrets := []string{"configmaps", "secrets"}, []string{"secrets"}
	plugin := func(name string, resources []string) Encryption {
		return Encryption{Kind: KMS, Resources: resources, Name: name, Endpoint: "unix:///run/kms.sock", Timeout: "3s"}
	}
	box := func(resources []string) Encryption { return Encryption{Kind: Secretbox, Resources: resources} }
	for name, c := range map[string]struct {
		from, to Encryption
		refused  bool
	}{
		"none to a plugin":               {Encryption{}, plugin("a", both), false},
		"a plugin to none":               {plugin("a", both), Encryption{}, false},
		"the same resources":             {box(both), plugin("a", both), false},
		"more resources":                 {box(secrets), plugin("a", both), true},
		"fewer resources":                {plugin("a", both), box(secrets), true},
		"another plugin":                 {plugin("a", secrets), plugin("b", secrets), false},
		"another plugin, more resources": {plugin("a", secrets), plugin("b", both), true},
		"the way there, first step":      {plugin("a", secrets), box(both), false},
		"the way there, second step":     {box(both), plugin("a", both), false},
		"no plugin":                      {box(secrets), box(both), false},
	} {
		b := bundle(t)
		var err error
		if b.Encryption, err = c.from.fresh(0, nil); err != nil {
			t.Fatal(err)
		}
		_, err = b.Rotate(map[Part]int{EncryptionPart: 1}, Next{Encryption: c.to},
			Options{Algorithm: ECDSAP256, Validity: time.Hour, Now: now})
		if (err != nil) != c.refused {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && !strings.Contains(err.Error(), "in two rotations") {
			t.Errorf("%s: %v does not say what to do", name, err)
		}
	}
}

// TestKMSWithSameName: API servers cannot have two plugins of one name, and the error says what to change.
func TestKMSWithSameName(t *testing.T) {
	plugin := func(name, socket, timeout string) Encryption {
		return Encryption{
			Kind: KMS, Resources: []string{"secrets"}, Name: name, Endpoint: "unix:///run/" + socket, Timeout: timeout,
		}
	}
	for name, c := range map[string]struct {
		to      Encryption
		refused bool
	}{
		"another time limit":               {plugin("a", "a.sock", "10s"), true},
		"another endpoint":                 {plugin("a", "b.sock", "3s"), true},
		"another name and time limit":      {plugin("b", "a.sock", "10s"), false},
		"another name at another endpoint": {plugin("b", "b.sock", "3s"), false},
	} {
		b := bundle(t)
		b.Encryption = plugin("a", "a.sock", "3s")
		_, err := b.Rotate(map[Part]int{EncryptionPart: 1}, Next{Encryption: c.to},
			Options{Algorithm: ECDSAP256, Validity: time.Hour, Now: now})
		if (err != nil) != c.refused || err != nil && !strings.Contains(err.Error(), "another name in kms.name") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWithKeys: the key of a CA is held elsewhere from now on, or no longer, and the CA stays the same.
func TestWithKeys(t *testing.T) {
	first := encrypting(t)
	public, _ := first.CA.public()
	with := func(k KeyPair) Next { return Next{Authorities: map[Authority]KeyPair{Kubernetes: k}} }
	without, err := first.WithKeys(with(public))
	if err != nil {
		t.Fatal(err)
	}
	if without.CA != public || first.CA == public {
		t.Errorf("held elsewhere: key of %d bytes, and the bundle before has %d",
			len(without.CA.PrivateKey), len(first.CA.PrivateKey))
	}
	if again, err := without.WithKeys(with(first.CA)); err != nil || !again.Same(first, Parts()...) {
		t.Errorf("supplied again: %v, the same: %t", err, err == nil && again.Same(first, Parts()...))
	}
	if same, err := first.WithKeys(Next{}); err != nil || !same.Same(first, Parts()...) {
		t.Errorf("nothing is supplied: %v, the same: %t", err, err == nil && same.Same(first, Parts()...))
	}
	next := stagesOf(t, first, KubernetesPart, 1)[1]
	public, _ = next.CARotation.Other.public()
	without, err = next.WithKeys(with(public))
	if err != nil {
		t.Fatal(err)
	}
	if *without.CARotation.Other != public || without.CA != first.CA || *next.CARotation.Other == public {
		t.Error("introduced: the next CA has to lose its key, and the one in use has to keep it")
	}
	other := authorityBelow(t, KeyPair{}, nil)
	wrong := KeyPair{Certificate: first.CA.Certificate, PrivateKey: other.PrivateKey}
	public, _ = first.CA.public()
	if without, err = first.WithKeys(with(public)); err != nil {
		t.Fatal(err)
	}
	if _, err := without.WithKeys(with(wrong)); err == nil {
		t.Error("the key of another CA was accepted")
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
	root := authorityBelow(t, KeyPair{}, func(c *x509.Certificate) { c.NotAfter = now.AddDate(1, 0, 0) })
	b.CA = authorityBelow(t, root, nil)
	want = []string{`"company", an issuer of the kubernetes authority, ends on 2027-03-01`}
	if got := b.Expiring(time.Hour, now.AddDate(1, 0, 0)); !slices.Equal(got, want) {
		t.Errorf("at the end of the root: %q, want %q", got, want)
	}
}

// TestIssues: a certificate of another authority of the rotation is not one of the authority that issues.
func TestIssues(t *testing.T) {
	first, err := Generate(Options{ClusterName: "prod", Now: now})
	if err != nil {
		t.Fatal(err)
	}
	introduced := rotate(t, first, EtcdPart, 1)
	adopted := rotate(t, introduced, EtcdPart, 2)
	of := func(b *Bundle) string {
		pair, err := b.Issue(APIServerEtcdClient(), now, 0)
		if err != nil {
			t.Fatal(err)
		}
		return pair.Certificate
	}
	old, next := of(first), of(adopted)
	for b, want := range map[*Bundle][2]bool{first: {true, false}, introduced: {true, false}, adopted: {false, true}} {
		if got := [2]bool{b.Issues(Etcd, old), b.Issues(Etcd, next)}; got != want {
			t.Errorf("at %d: %v", b.Generation(EtcdPart), got)
		}
	}
	if first.Issues(Kubernetes, old) || first.Issues(Etcd, "") || first.Issues("x", old) {
		t.Error("a certificate of another authority, or none")
	}
}
