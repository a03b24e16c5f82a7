package pki

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Part is a part of a bundle that can be rotated.
type Part string

// The parts: the three authorities, the service-account keys and the keys of
// encryption at rest.
const (
	KubernetesPart     = Part(Kubernetes)
	EtcdPart           = Part(Etcd)
	FrontProxyPart     = Part(FrontProxy)
	ServiceAccountPart = Part("service-account")
	EncryptionPart     = Part("encryption")
)

// Parts returns all parts.
func Parts() []Part {
	return []Part{KubernetesPart, EtcdPart, FrontProxyPart, ServiceAccountPart, EncryptionPart}
}

// Signs reports whether replicas sign with the part's key what others verify later: certificates of kubelets, or tokens
// of service accounts. They do so until they adopt the next key.
func (p Part) Signs() bool { return p == KubernetesPart || p == ServiceAccountPart }

// Stage is a stage of a rotation. The three stages follow each other, and each is compatible
// with the one before and the one after it, so that machines can move from stage to stage one
// at a time.
type Stage int

// The stages. Certificates and keys are trusted, published or readable before anything is
// created with them, and for as long as anything created with them may be in use.
const (
	Steady     Stage = iota // one is in use
	Introduced              // the next one is trusted too; the current one still issues everything
	Adopted                 // the next one issues everything; the previous one is still trusted
)

const stages = 3

// StageOf returns the stage of a generation number. Each number is one stage, so a whole
// rotation raises it by three.
func StageOf(generation int) Stage { return Stage(generation % stages) }

// Rotation is the rotation state of one part: the other value, next to the one in use.
type Rotation[T any] struct {
	Generation int
	// Other is the next one (Introduced) or the previous one (Adopted). In a Steady stage it is
	// the remainder of the previous one, which is enough to go back one stage; nil if there was
	// none.
	Other *T
	// Cross is a certificate of the newer authority signed by the older one. It is sent along
	// with certificates of the newer one, so that peers that trust only the older one accept
	// them.
	Cross string
	// Retired means that the last stage was reached, which dropped the private key of Other.
	Retired bool
	// Withdrawn has the certificates (PEM) of the Kubernetes authorities whose introduction was taken back since the last
	// rotation ended. Kubelets may still trust them.
	Withdrawn string
	// Former is what Other was before the rotation in progress. It is Other again if the rotation is taken back. Only
	// encryption keeps it, whose keys old backups need.
	Former *T
}

// Stage returns the stage of the rotation.
func (r Rotation[T]) Stage() Stage { return StageOf(r.Generation) }

// Generation returns the generation number of a part.
func (b *Bundle) Generation(p Part) int {
	switch p {
	case ServiceAccountPart:
		return b.ServiceAccountRotation.Generation
	case EncryptionPart:
		return b.EncryptionRotation.Generation
	}
	if a, err := b.authority(Authority(p)); err == nil {
		return a.rotation.Generation
	}
	return 0
}

// Generations returns the generation numbers of all parts.
func (b *Bundle) Generations() map[Part]int {
	numbers := map[Part]int{}
	for _, p := range Parts() {
		numbers[p] = b.Generation(p)
	}
	return numbers
}

// ValidateRotation returns why a part cannot go from one generation number to another, or nil.
// Only one stage at a time is allowed. Going back is possible within a rotation, and from its
// last stage.
func ValidateRotation(p Part, from, to int) error {
	switch {
	case to < 0:
		return fmt.Errorf("rotation of %s: %d is negative", p, to)
	case to > from+1:
		return fmt.Errorf("rotation of %s from %d to %d skips a stage: apply %d first", p, from, to, from+1)
	case to < from-1:
		return fmt.Errorf("rotation of %s from %d back to %d skips a stage: apply %d first", p, from, to, from-1)
	}
	return nil
}

// Next is the input of a rotation's first stage: what the user supplies, or nothing, to
// generate it.
type Next struct {
	Authorities    map[Authority]KeyPair
	ServiceAccount KeyPair
	Encryption     Encryption
}

// Rotate returns the bundle with its parts at the given generation numbers, each at most one
// stage away (see ValidateRotation). b itself is not changed.
func (b *Bundle) Rotate(generations map[Part]int, next Next, o Options) (*Bundle, error) {
	rotated := *b
	if o.Algorithm == "" {
		o.Algorithm = b.Algorithm
	}
	o = o.standard()
	for _, p := range Parts() {
		to, named := generations[p]
		if !named || to == b.Generation(p) {
			continue
		}
		if err := ValidateRotation(p, b.Generation(p), to); err != nil {
			return nil, err
		}
		if err := rotated.step(p, to, next, o); err != nil {
			return nil, fmt.Errorf("rotation of %s to %d: %w", p, to, err)
		}
	}
	if err := rotated.Validate(); err != nil {
		return nil, err
	}
	return &rotated, nil
}

// At returns the bundle at the given stage of a part, which is its own or one beside it, as far as b knows it: a bundle
// from before a rotation does not have what that introduces. b itself is not changed.
func (b *Bundle) At(p Part, generation int) (there *Bundle, known bool) {
	if to := b.Generation(p); generation == to+1 && StageOf(to) == Steady {
		return nil, false
	}
	there, err := b.Rotate(map[Part]int{p: generation}, Next{}, Options{})
	return there, err == nil
}

// Reintroduces reports whether the number after that of a part leads to a CA or key that the bundle has, and not to one
// that is generated or supplied then. For encryption, this takes the same provider.
func (b *Bundle) Reintroduces(p Part) bool {
	return StageOf(b.Generation(p)) != Steady || p == EncryptionPart && len(b.WithdrawnKeys) > 0
}

func (b *Bundle) step(p Part, to int, next Next, o Options) error {
	switch p {
	case ServiceAccountPart:
		return advance(&b.ServiceAccount, &b.ServiceAccountRotation, to,
			func() (KeyPair, error) { return b.nextServiceAccount(next.ServiceAccount, o) }, KeyPair.public)
	case EncryptionPart:
		// The previous key is kept, and one that is withdrawn, because backups may still contain objects encrypted with
		// them.
		before := b.EncryptionRotation
		err := advance(&b.Encryption, &b.EncryptionRotation, to,
			func() (Encryption, error) { return b.introduce(next.Encryption, to) },
			func(e Encryption) (Encryption, bool) { return e, false })
		if err == nil {
			b.EncryptionRotation.keepFormer(before)
			b.WithdrawnKeys = b.withdrawnKeysAfter(before)
		}
		return err
	}
	a, err := b.authority(Authority(p))
	if err != nil {
		return err
	}
	old, before, forth := *a.pair, *a.rotation, to > a.rotation.Generation
	err = advance(a.pair, a.rotation, to,
		func() (KeyPair, error) { return b.nextAuthority(Authority(p), next, to, o) }, KeyPair.public)
	if err != nil {
		return err
	}
	if forth && StageOf(to) == Introduced { // on the way back, old is the newer CA
		a.rotation.Cross = crossSign(old, *a.rotation.Other, o.Now)
	}
	if p == KubernetesPart {
		a.rotation.Withdrawn = withdrawnAfter(before, to)
	}
	return nil
}

// withdrawnAfter returns Withdrawn after the step from before to a generation.
func withdrawnAfter(before Rotation[KeyPair], to int) string {
	switch forth, stage := to > before.Generation, before.Stage(); {
	case forth && stage == Steady && before.Other != nil: // a rotation has ended, in which all machines took part
		return ""
	case !forth && stage == Introduced:
		if certificate := first(before.Other.Certificate); !strings.Contains(before.Withdrawn, certificate) {
			return before.Withdrawn + certificate
		}
	}
	return before.Withdrawn
}

// withdrawnKeysAfter returns WithdrawnKeys after a step of the encryption from before to where it is now.
func (b *Bundle) withdrawnKeysAfter(before Rotation[Encryption]) []Encryption {
	kept := slices.Clone(b.WithdrawnKeys)
	if before.Stage() == Introduced && b.EncryptionRotation.Stage() == Steady && before.Other.Key != "" {
		kept = append(kept, *before.Other)
	}
	kept = slices.DeleteFunc(kept, func(e Encryption) bool { // introduced again
		return slices.ContainsFunc(b.Encryptions(), func(other Encryption) bool { return e.Key == other.Key })
	})
	if len(kept) == 0 {
		return nil
	}
	return kept
}

// keepFormer keeps Other through the next rotation, until that one ends. before is r before its last step.
func (r *Rotation[T]) keepFormer(before Rotation[T]) {
	switch from, to := before.Stage(), r.Stage(); {
	case from == Steady && to == Introduced:
		r.Former = before.Other
	case from == Introduced && to == Steady:
		r.Other = before.Former
	case to == Steady:
		r.Former = nil
	}
}

// advance moves one part by one stage: forward to the next number, or back.
func advance[T any](inUse *T, r *Rotation[T], to int, introduce func() (T, error), retire func(T) (T, bool)) error {
	forth := to > r.Generation
	stage := r.Stage()
	switch {
	case forth && stage == Steady:
		other, err := introduce()
		if err != nil {
			return err
		}
		*r = Rotation[T]{Other: &other}
	case !forth && stage == Adopted && r.Retired:
		return errors.New("the key of the previous one is gone: only the way forward is open")
	case forth && stage == Introduced, !forth && stage == Adopted:
		other := *inUse
		*inUse, r.Other = *r.Other, &other
	case forth && stage == Adopted:
		other, dropped := retire(*r.Other)
		r.Other, r.Retired = &other, r.Retired || dropped
	case !forth && stage == Introduced:
		*r = Rotation[T]{}
	case r.Other == nil: // back into a rotation that is complete
		return errors.New("nothing is left of the previous one: only the way forward is open")
	}
	r.Generation = to
	return nil
}

// public returns the pair without its key, and whether it had one.
func (k KeyPair) public() (KeyPair, bool) {
	had := k.PrivateKey != ""
	k.PrivateKey = ""
	return k, had
}

func (b *Bundle) nextServiceAccount(supplied KeyPair, o Options) (KeyPair, error) {
	if supplied.PrivateKey != "" {
		return supplied, nil
	}
	return newServiceAccount(o.Algorithm)
}

// nextAuthority generates the next authority, unless it is supplied. Its common name contains
// the number of the authority, so that the two can be distinguished.
func (b *Bundle) nextAuthority(a Authority, next Next, to int, o Options) (KeyPair, error) {
	if supplied := next.Authorities[a]; supplied.Certificate != "" {
		return supplied, nil
	}
	return newAuthority(fmt.Sprintf("%s-%d", commonNames[a], to/stages+2), o)
}

// byAge returns the value in use and, during a rotation, the other one, ordered from older to
// newer. The order does not change during the rotation, so that its second stage changes no
// trust file.
func byAge[T any](inUse T, r Rotation[T]) []T {
	switch r.Stage() {
	case Introduced:
		return []T{inUse, *r.Other}
	case Adopted:
		return []T{*r.Other, inUse}
	}
	return []T{inUse}
}

// newest returns the pair that the configuration describes: the next one while it is being
// introduced, otherwise the one in use.
func newest[T any](inUse T, r Rotation[T]) T {
	if r.Stage() == Introduced {
		return *r.Other
	}
	return inUse
}

// Conflict describes how the parts supplied by the user differ from the newest ones, or returns
// nil. Another authority or key requires a rotation.
func (b *Bundle) Conflict(supplied Next) error {
	for _, name := range []Authority{Kubernetes, Etcd, FrontProxy} {
		want, ok := supplied.Authorities[name]
		held, err := b.authority(name)
		if err != nil {
			return err
		}
		have := newest(*held.pair, *held.rotation)
		switch {
		case !ok:
		case !sameCertificate(want.Certificate, have.Certificate):
			return differs(Part(name), b.Generation(Part(name)))
		case otherIssuers(have, want) && !lacksIssuers(have):
			return fmt.Errorf("%s has other issuers than the cluster has: they are part of the CA, and changing them takes a "+
				"rotation to a CA with a new key; until then, its certificate must be followed by the issuers of before", name)
		}
	}
	want, have := supplied.ServiceAccount, newest(b.ServiceAccount, b.ServiceAccountRotation)
	if want.PrivateKey != "" && want.PublicKey != have.PublicKey {
		return differs(ServiceAccountPart, b.ServiceAccountRotation.Generation)
	}
	if !supplied.Encryption.describes(newest(b.Encryption, b.EncryptionRotation)) {
		return differs(EncryptionPart, b.EncryptionRotation.Generation)
	}
	return nil
}

// WithoutIssuers returns the supplied authorities whose issuers the bundle does not have. Machines from which a bundle
// was imported may not have them.
func (b *Bundle) WithoutIssuers(supplied Next) []Authority {
	var names []Authority
	for _, name := range []Authority{Kubernetes, Etcd, FrontProxy} {
		want, ok := supplied.Authorities[name]
		held, err := b.authority(name)
		if !ok || err != nil {
			continue
		}
		have := newest(*held.pair, *held.rotation)
		if sameCertificate(want.Certificate, have.Certificate) && otherIssuers(have, want) && lacksIssuers(have) {
			names = append(names, name)
		}
	}
	return names
}

// otherIssuers compares everything behind the first certificates.
func otherIssuers(a, b KeyPair) bool {
	return !slices.Equal(CertificatesIn(a.Certificate)[1:], CertificatesIn(b.Certificate)[1:])
}

func lacksIssuers(k KeyPair) bool { return len(CertificatesIn(k.Certificate)) == 1 }

// WithKeys returns the bundle with the keys of the authorities that the user supplies (see Conflict): one whose key is
// held elsewhere from now on loses it, and one whose key was held elsewhere gets it. b itself is not changed.
func (b *Bundle) WithKeys(supplied Next) (*Bundle, error) {
	keyed := *b
	for name, want := range supplied.Authorities {
		held, err := keyed.authority(name)
		if err != nil {
			return nil, err
		}
		pair := newest(*held.pair, *held.rotation)
		if (pair.PrivateKey == "") == (want.PrivateKey == "") {
			continue
		}
		pair.PrivateKey = want.PrivateKey
		if held.rotation.Stage() == Introduced {
			held.rotation.Other = &pair
		} else {
			*held.pair = pair
		}
	}
	return &keyed, keyed.Validate()
}

func differs(p Part, generation int) error {
	if stage := StageOf(generation); stage != Steady {
		return fmt.Errorf("%s is not the one whose rotation is under way: finish that rotation first", p)
	}
	return fmt.Errorf("%s is another one than the cluster has: changing it takes a rotation; raise rotation.%s from %d "+
		"to %d to introduce it",
		p, p.Attribute(), generation, generation+1)
}

// Attribute returns the name of the part in the configuration.
func (p Part) Attribute() string {
	switch p {
	case FrontProxyPart:
		return "front_proxy"
	case ServiceAccountPart:
		return "service_account"
	}
	return string(p)
}

// Expiring returns the authorities in use, and the issuers of intermediate ones, that expire within the given time, or
// nil. What they issue expires with them, and servers are verified up to the last issuer.
func (b *Bundle) Expiring(within time.Duration, now time.Time) []string {
	var ending []string
	for _, name := range []Authority{Kubernetes, Etcd, FrontProxy} {
		held, err := b.authority(name)
		if err != nil {
			continue
		}
		certificates, err := parseAuthorities(held.pair.Certificate)
		if err != nil {
			continue // Validate says so
		}
		for i, c := range certificates {
			what := fmt.Sprintf("the %s authority %q", name, c.Subject.CommonName)
			if i > 0 {
				what = fmt.Sprintf("%q, an issuer of the %s authority,", c.Subject.CommonName, name)
			}
			if c.NotAfter.Sub(now) < within {
				ending = append(ending, fmt.Sprintf("%s ends on %s", what, c.NotAfter.UTC().Format(time.DateOnly)))
			}
		}
	}
	return ending
}
