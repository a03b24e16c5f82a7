package pki

import (
	"fmt"
	"time"
)

// Due reports whether a certificate is due for renewal at now: within early of its expiry or,
// if early is 0, in the last third of its lifetime. An expired certificate is due too.
func (i Info) Due(early time.Duration, now time.Time) bool {
	if early == 0 {
		early = i.NotAfter.Sub(i.NotBefore) / 3
	}
	return i.NotAfter.Sub(now) <= early
}

// Life returns the lifetime of a certificate, as Issue counts it.
func (i Info) Life() time.Duration { return i.NotAfter.Sub(i.NotBefore) - backdate }

// Renewal describes a certificate that is due (see Info.Due), or returns nil. A certificate
// that expires together with its authority stays, because a new one would not last longer.
// Unreadable and expired certificates are reported by Check, and externally signed ones are
// renewed externally.
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

// ValidateEarlyRenewal returns why certificates cannot be renewed that early, or nil: a new
// certificate must not be due immediately.
func ValidateEarlyRenewal(early time.Duration) error {
	if early <= 0 || early >= leafValidity {
		return fmt.Errorf("early renewal %s is not between 0 and the life of a certificate, %s", early, leafValidity)
	}
	return nil
}
