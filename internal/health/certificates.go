package health

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// certificateIssues returns the certificates that have expired or expire within days.
func certificateIssues(seen ControlPlane, days int64, now time.Time) []Issue {
	var issues []Issue
	add := func(label string, end time.Time) {
		left := DaysUntil(end, now)
		switch date := end.UTC().Format(time.DateOnly); {
		case end.IsZero():
		case !now.Before(end):
			issues = append(issues, Issue{Expiring, fmt.Sprintf("%s: a certificate expired on %s", label, date)})
		case left < days:
			issues = append(issues, Issue{Expiring, fmt.Sprintf("%s: a certificate expires on %s, in %d days", label, date,
				left)})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(seen.Authorities)) {
		add("CA "+name, seen.Authorities[name])
	}
	for _, m := range seen.Etcd.Machines {
		add(Labelled("etcd member", m.Member, m.Address), m.CertificateExpiry)
	}
	for _, name := range slices.Sorted(maps.Keys(seen.Replicas)) {
		r := seen.Replicas[name]
		label, before := Labelled("replica", name, r.Address), len(issues)
		for _, c := range r.Components {
			add(label+": "+c.Name, c.CertificateExpiry)
		}
		if len(issues) == before { // no component's certificate: that of the administrators' kubeconfig
			add(label+": admin.conf", r.CertificateExpiry)
		}
	}
	return issues
}

// firstExpiry returns when the first certificate expires, including the authorities.
func firstExpiry(seen ControlPlane) time.Time {
	var ends []time.Time
	for _, m := range seen.Etcd.Machines {
		ends = append(ends, m.CertificateExpiry)
	}
	for _, r := range seen.Replicas {
		ends = append(ends, r.CertificateExpiry)
	}
	ends = slices.AppendSeq(ends, maps.Values(seen.Authorities))
	ends = slices.DeleteFunc(ends, time.Time.IsZero)
	if len(ends) == 0 {
		return time.Time{}
	}
	return slices.MinFunc(ends, time.Time.Compare)
}

// DaysUntil returns the number of whole days from now until end. It is negative after end.
func DaysUntil(end, now time.Time) int64 {
	left := end.Sub(now)
	days := int64(left / (24 * time.Hour))
	if left < 0 && left%(24*time.Hour) != 0 {
		days--
	}
	return days
}
