package pki

import (
	"fmt"
	"time"
)

// Due reports whether now is in the last part of a certificate's life, in which
// it is renewed: early before its end, or, where early is 0, a third of its
// life. One that has expired is due too.
func (i Info) Due(early time.Duration, now time.Time) bool {
	if early == 0 {
		early = i.NotAfter.Sub(i.NotBefore) / 3
	}
	return i.NotAfter.Sub(now) <= early
}

// Life is how long a certificate was issued for, as Issue counts it.
func (i Info) Life() time.Duration { return i.NotAfter.Sub(i.NotBefore) - backdate }

// Renewal describes a certificate that is due (see Info.Due), or is nil. One
// that ends together with its authority stays: a new one would not last longer.
// What cannot be read or has expired is for Check to say, and what is signed
// elsewhere is renewed there.
func (b *Bundle) Renewal(l Leaf, certificate string, early time.Duration, now time.Time) []string {
	info, err := Inspect(certificate)
	if err != nil || b.External(l.Authority) || !now.Before(info.NotAfter) || !info.Due(early, now) {
		return nil
	}
	if authority, err := b.signing(l.Authority); err != nil || !authority.NotAfter.After(info.NotAfter) {
		return nil
	}
	return []string{fmt.Sprintf("%s certificate expires on %s: it is due for renewal", l.Name,
		info.NotAfter.UTC().Format(time.DateOnly))}
}

// ValidateEarlyRenewal says why certificates cannot be renewed that early, or
// nil: a new one must not be due at once.
func ValidateEarlyRenewal(early time.Duration) error {
	if early <= 0 || early >= leafValidity {
		return fmt.Errorf("early renewal %s is not between 0 and the life of a certificate, %s", early, leafValidity)
	}
	return nil
}
