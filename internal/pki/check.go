package pki

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Check returns why a certificate does not match l, or nil: wrong authority, subject, names,
// usage, expired or not yet valid at now. It needs no private key.
func (b *Bundle) Check(l Leaf, certificate string, now time.Time) []string {
	var problems []string
	for _, p := range b.problems(l, certificate, now) {
		problems = append(problems, l.Name+" certificate "+p)
	}
	return problems
}

// problems returns the differences as predicates: "lacks 10.0.0.13".
func (b *Bundle) problems(l Leaf, text string, now time.Time) []string {
	names, err := l.validate()
	if err != nil {
		return []string{"cannot exist: " + err.Error()}
	}
	authority, err := b.signing(l.Authority)
	if err != nil {
		return []string{"cannot be checked: " + err.Error()}
	}
	if strings.TrimSpace(text) == "" {
		return []string{"is empty"}
	}
	c, err := firstCertificate(text)
	if err != nil {
		return []string{"cannot be read: " + err.Error()}
	}
	problems := slices.Concat(
		authorityProblems(c, authority, now),
		timeProblems(c, now),
		subjectProblems(c, l),
		nameProblems(c, names),
		usageProblems(c, l.Usage),
	)
	if len(problems) == 0 {
		problems = verify(c, authority, l.Usage, now)
	}
	if pair, ok := b.Signed[l.Name]; ok && len(problems) == 0 &&
		strings.TrimSpace(pair.Certificate) != strings.TrimSpace(text) {
		problems = append(problems, "is not the one that was signed for it")
	}
	return problems
}

func authorityProblems(c, authority *x509.Certificate, now time.Time) []string {
	name := authority.Subject.CommonName
	if !bytes.Equal(c.RawIssuer, authority.RawSubject) || c.CheckSignatureFrom(authority) != nil {
		return []string{fmt.Sprintf("is signed by another authority (%q) than this cluster's %q", c.Issuer.CommonName, name)}
	}
	if now.After(authority.NotAfter) {
		return []string{fmt.Sprintf("is signed by authority %q, which expired %s ago", name,
			span(now.Sub(authority.NotAfter)))}
	}
	return nil
}

func timeProblems(c *x509.Certificate, now time.Time) []string {
	switch {
	case now.After(c.NotAfter):
		return []string{"expired " + span(now.Sub(c.NotAfter)) + " ago"}
	case now.Before(c.NotBefore):
		return []string{"is not valid yet: it begins in " + span(c.NotBefore.Sub(now))}
	}
	return nil
}

func subjectProblems(c *x509.Certificate, l Leaf) []string {
	var problems []string
	if c.Subject.CommonName != l.CommonName {
		problems = append(problems, fmt.Sprintf("is for %q instead of %q", c.Subject.CommonName, l.CommonName))
	}
	if !acceptableGroups(l, c.Subject.Organization) {
		problems = append(problems, fmt.Sprintf("has the groups %q instead of %q", c.Subject.Organization, l.Organizations))
	}
	return problems
}

// acceptableGroups also accepts system:masters in the certificates that earlier versions of
// kubeadm put it into (the admin, and the clients of etcd, which ignores groups), so that
// importing an older cluster replaces no certificate. It is rejected everywhere else.
func acceptableGroups(l Leaf, groups []string) bool {
	want, have := slices.Sorted(slices.Values(l.Organizations)), slices.Sorted(slices.Values(groups))
	if slices.Equal(want, have) {
		return true
	}
	older := slices.Equal(want, []string{clusterAdmins}) || (l.Authority == Etcd && len(want) == 0)
	return older && slices.Equal(have, []string{"system:masters"})
}

// nameProblems also reports surplus names: a name that moved to another machine must not stay
// valid on this one.
func nameProblems(c *x509.Certificate, want hostNames) []string {
	info := infoOf(c)
	have := slices.Concat(info.DNSNames, info.IPAddresses)
	var problems []string
	if missing := without(want.all(), have); len(missing) > 0 {
		problems = append(problems, "lacks "+strings.Join(missing, ", "))
	}
	if unexpected := without(have, want.all()); len(unexpected) > 0 {
		problems = append(problems, "also names "+strings.Join(unexpected, ", "))
	}
	return problems
}

func usageProblems(c *x509.Certificate, want Usage) []string {
	var problems []string
	for _, role := range []struct {
		usage Usage
		name  string
	}{{Server, "server"}, {Client, "client"}} {
		switch have := usageOf(c)&role.usage != 0; {
		case have && want&role.usage == 0:
			problems = append(problems, "may be used by a "+role.name+" too")
		case !have && want&role.usage != 0:
			problems = append(problems, "may not be used by a "+role.name)
		}
	}
	if c.IsCA {
		problems = append(problems, "may sign other certificates")
	}
	return problems
}

// verify runs crypto/x509 last. It checks rules that have no message of their own here, such as
// the name constraints of an imported authority.
func verify(c, authority *x509.Certificate, usage Usage, now time.Time) []string {
	roots := x509.NewCertPool()
	roots.AddCert(authority)
	for _, use := range usage.extended() {
		options := x509.VerifyOptions{Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{use}}
		if _, err := c.Verify(options); err != nil {
			return []string{"does not verify: " + err.Error()}
		}
	}
	return nil
}

// without returns the elements of list that are not in other. Names are compared
// case-insensitively, as in certificates.
func without(list, other []string) []string {
	var left []string
	for _, item := range list {
		if !slices.ContainsFunc(other, func(o string) bool { return strings.EqualFold(item, o) }) {
			left = append(left, item)
		}
	}
	return left
}

// span formats a duration in its largest unit: "3 days".
func span(d time.Duration) string {
	unit, n := "minute", int64(d/time.Minute)
	switch day := 24 * time.Hour; {
	case d >= day:
		unit, n = "day", int64(d/day)
	case d >= time.Hour:
		unit, n = "hour", int64(d/time.Hour)
	}
	if n != 1 {
		unit += "s"
	}
	return fmt.Sprintf("%d %s", n, unit)
}
