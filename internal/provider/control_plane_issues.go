package provider

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// The kinds of issues, with the values that fail_on accepts.
const (
	issueUnreachable = "unreachable" // it could not be queried
	issueUnhealthy   = "unhealthy"   // it was queried, and a problem was detected
	issueExpiring    = "expiring"    // a certificate has expired or expires soon
)

var issueKinds = []string{issueUnreachable, issueUnhealthy, issueExpiring}

// fullAt is the share of its quota from which a database's size is an issue. When the quota is
// full, etcd refuses writes.
const fullAt = 0.8

// issue is one detected problem, as a sentence.
type issue struct {
	kind string
	text string
}

// issuesOf returns all issues of an observed control plane: machines first, then etcd, the
// endpoint, the replicas and certificates. A certificate counts if it expires within days. The
// function is pure.
func issuesOf(seen controlPlane, days int64, now time.Time) []issue {
	if seen.notQueried != "" {
		return []issue{{issueUnreachable, "the control plane was not queried: " + seen.notQueried}}
	}
	return slices.Concat(
		machineIssues(seen),
		etcdIssues(seen.etcd),
		endpointIssues(seen.endpoint),
		replicaIssues(seen),
		certificateIssues(seen, days, now),
	)
}

// machineIssues returns one issue for each machine that could not be observed, with the
// components that are on it.
func machineIssues(seen controlPlane) []issue {
	why, parts := map[string]error{}, map[string][]string{}
	add := func(address, part string, err error) {
		if err != nil {
			why[address] = err // any of them: only their wording differs
			parts[address] = append(parts[address], part)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(seen.endpoint.Balancers)) {
		b := seen.endpoint.Balancers[name]
		add(b.Address, "balancer "+name, b.Err)
	}
	for _, m := range seen.etcd.Machines {
		add(m.Address, strings.TrimSpace("etcd member "+memberAddressed(seen.etcd, m.Address)), m.Err)
	}
	for _, name := range slices.Sorted(maps.Keys(seen.replicas)) {
		r := seen.replicas[name]
		add(r.Address, "replica "+name, r.Err)
	}
	var issues []issue
	for _, address := range slices.Sorted(maps.Keys(why)) {
		issues = append(issues,
			issue{issueUnreachable, fmt.Sprintf("machine %s with %s: %s", address, enumerated(parts[address]),
				unreachedBecause(why[address], address))})
	}
	return issues
}

// memberAddressed returns the name of the member at an address, or "" if the cluster does not
// list it.
func memberAddressed(h etcd.Health, address string) string {
	for _, m := range h.Members {
		if m.Address == address {
			return m.Name
		}
	}
	return ""
}

// unreachedBecause returns why a machine could not be observed, without the parts that the
// sentence already contains.
func unreachedBecause(err error, address string) string {
	var key *host.HostKeyError
	switch {
	case errors.As(err, &key):
		return key.Error()
	case errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, host.ErrUnreachable):
		return "no answer within the time limit of this data source"
	}
	return indented(strings.TrimPrefix(err.Error(), "observe the machine on "+address+": "))
}

// enumerated joins words as "a, b and c".
func enumerated(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

// labelled returns the name of a component together with its machine.
func labelled(kind, name, address string) string {
	switch {
	case name == "":
		return kind + " on " + address
	case address == "" || name == address:
		return kind + " " + name
	}
	return fmt.Sprintf("%s %s (%s)", kind, name, address)
}

func unhealthy(format string, args ...any) issue {
	return issue{issueUnhealthy, fmt.Sprintf(format, args...)}
}

func etcdIssues(h etcd.Health) []issue {
	var issues []issue
	switch {
	case h.Silence != nil && !slices.ContainsFunc(h.Machines, func(m etcd.Machine) bool { return m.Err == nil }):
		issues = append(issues, issue{issueUnreachable, "etcd: none of its machines can be observed, so its state " +
			"is unknown"})
	case h.Silence != nil:
		issues = append(issues, unhealthy("etcd: %s", indented(h.Silence.Error())))
	case h.Leader() == "":
		issues = append(issues, unhealthy("etcd: the members report no leader"))
	}
	for _, words := range h.Orphans {
		issues = append(issues, unhealthy("etcd: %s", words))
	}
	for _, m := range h.Members {
		issues = append(issues, memberIssues(h, m)...)
	}
	if d := h.LastDrill(); d != nil && !d.Succeeded {
		issues = append(issues, unhealthy("the last restore drill, on the machine of etcd member %s, failed: %s", d.Member,
			indented(d.Problem)))
	}
	for _, m := range h.Machines {
		if m.SnapshotFailed != "" {
			issues = append(issues, unhealthy("%s: the last run of etcd-snapshot.service failed (%s); check its "+
				"log (journalctl -u etcd-snapshot.service)", labelled("etcd member", m.Member, m.Address), m.SnapshotFailed))
		}
		if m.Err == nil && !slices.ContainsFunc(h.Members, func(r membership.MemberStatus) bool {
			return r.Address == m.Address
		}) {
			issues = append(issues, unlistedIssues(h, m)...)
		}
	}
	return issues
}

// memberIssues returns the issues of a member that the cluster lists.
func memberIssues(h etcd.Health, m membership.MemberStatus) []issue {
	var issues []issue
	label := labelled("etcd member", m.Name, m.Address)
	for _, words := range m.Problems() {
		issues = append(issues, unhealthy("%s %s", label, words))
	}
	for _, machine := range h.Machines {
		if machine.Address == m.Address && machine.Err == nil && machine.Unit != "active" {
			issues = append(issues, unhealthy("%s: etcd.service is %s", label, orMissing(machine.Unit)))
		}
	}
	if share, known := quotaUsed(h, m); known && share >= fullAt {
		issues = append(issues, unhealthy("%s: its database uses %.0f %% of its quota of %s; etcd refuses writes "+
			"when the quota is exceeded", label, share*100, sizeText(h.QuotaOf(m))))
	}
	return issues
}

// unlistedIssues returns the issues of an observed machine that has no member in the cluster's
// member list, or for which no member list is available.
func unlistedIssues(h etcd.Health, m etcd.Machine) []issue {
	label := labelled("etcd member", m.Member, m.Address)
	switch {
	case m.Foreign != "":
		return []issue{unhealthy("machine %s has %s", m.Address, m.Foreign)}
	case m.Member == "":
		return []issue{unhealthy("machine %s: it has no etcd member of this cluster", m.Address)}
	case h.Silence == nil:
		return []issue{unhealthy("%s: the cluster does not list it, but its machine still has its files", label)}
	case m.Unit != "active":
		return []issue{unhealthy("%s: etcd.service is %s", label, orMissing(m.Unit))}
	}
	return nil
}

func orMissing(state string) string {
	if state == "" {
		return "missing"
	}
	return state
}

// quotaUsed returns the share of its quota that a member's database uses.
func quotaUsed(h etcd.Health, m membership.MemberStatus) (share float64, known bool) {
	quota := h.QuotaOf(m)
	if quota <= 0 || m.DBSize == 0 {
		return 0, false
	}
	return float64(m.DBSize) / float64(quota), true
}

// sizeText formats a size in MiB, or in GiB from 1 GiB on.
func sizeText(bytes int64) string {
	if bytes >= 1<<30 {
		return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
	}
	return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
}

// holderIssues describes a virtual IP that is not on exactly one balancer.
func holderIssues(address string, holders, unseen []string) []issue {
	switch {
	case len(holders) > 1:
		return []issue{unhealthy("virtual IP %s: it is on %s at the same time", address, enumerated(holders))}
	case len(holders) == 0 && len(unseen) > 0:
		return []issue{{issueUnreachable, fmt.Sprintf("virtual IP %s: no observed balancer has it; "+
			"%s may have it", address, enumerated(unseen))}}
	case len(holders) == 0:
		return []issue{unhealthy("virtual IP %s: no balancer has it", address)}
	}
	return nil
}

func endpointIssues(h endpointHealth) []issue {
	if h.targets != nil {
		return externalIssues(*h.targets)
	}
	holders, unseen := h.Holders(), h.Unobserved()
	issues := holderIssues(h.Address, holders, unseen)
	for _, address := range h.Others {
		other := h.HoldersOf(address)
		issues = append(issues, holderIssues(address, other, unseen)...)
		if len(holders) == 1 && len(other) == 1 && holders[0] != other[0] {
			issues = append(issues, unhealthy("virtual IPs: %s is on %s, and %s on %s", h.Address, enumerated(holders),
				address, enumerated(other)))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(h.Balancers)) {
		b := h.Balancers[name]
		if b.Err != nil {
			continue
		}
		if trouble := b.Problem(); trouble != "" {
			issues = append(issues, unhealthy("%s: %s", labelled("balancer", name, b.Address), trouble))
		}
	}
	if len(h.Replicas) == 0 && len(unseen) < len(h.Balancers) {
		issues = append(issues, unhealthy("endpoint %s: no replica is registered", h.Address))
	}
	return issues
}

func externalIssues(h targets.Health) []issue {
	switch {
	case len(h.Replicas) == 0:
		return []issue{unhealthy("endpoint %s: none of its targets has a replica", h.URL)}
	case h.Silence != "":
		return []issue{unhealthy("endpoint %s: it does not answer: %s", h.URL, h.Silence)}
	}
	return nil
}

func replicaIssues(seen controlPlane) []issue {
	var issues []issue
	for _, name := range slices.Sorted(maps.Keys(seen.replicas)) {
		r := seen.replicas[name]
		label := labelled("replica", name, r.Address)
		switch {
		case r.Err != nil:
		case r.Foreign != "":
			issues = append(issues, unhealthy("%s: its machine has %s", label, r.Foreign))
		case r.Name == "":
			issues = append(issues, unhealthy("%s: the balancers list it, but its machine has no replica", label))
		case r.Name != name:
			issues = append(issues, unhealthy("%s: the balancers list it, but its machine has replica %q", label, r.Name))
		default:
			for _, c := range r.Components {
				if !c.Healthy {
					issues = append(issues, unhealthy("%s: %s: %s", label, c.Name, c.Health))
				}
			}
		}
		issues = append(issues, rotationIssues(seen.endpoint, name, label)...)
	}
	return issues
}

// rotationIssues reports the balancers at which a replica is not in rotation. Balancers with
// the same reason are reported together. A balancer that has problems itself has an issue of
// its own.
func rotationIssues(h endpointHealth, replica, label string) []issue {
	if h.targets != nil {
		if why, out := h.targets.NotReady[replica]; out {
			return []issue{unhealthy("%s: not ready: %s", label, why)}
		}
		if _, listed := h.Replicas[replica]; !listed {
			return []issue{unhealthy("%s: it is not a target of the endpoint", label)}
		}
		return nil
	}
	where := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(h.Balancers)) {
		b := h.Balancers[name]
		if b.Err != nil || b.Problem() != "" {
			continue
		}
		why, out := b.Out[replica]
		if _, listed := h.Replicas[replica]; !listed {
			why, out = "not registered", true
		}
		if out {
			where[why] = append(where[why], name)
		}
	}
	var issues []issue
	for _, why := range slices.Sorted(maps.Keys(where)) {
		issues = append(issues, unhealthy("%s: %s, reported by %s", label, why, balancersNamed(where[why])))
	}
	return issues
}

func balancersNamed(names []string) string {
	if len(names) == 1 {
		return "balancer " + names[0]
	}
	return "balancers " + enumerated(names)
}

// certificateIssues returns the certificates that have expired or expire within days.
func certificateIssues(seen controlPlane, days int64, now time.Time) []issue {
	var issues []issue
	add := func(label string, end time.Time) {
		left := daysUntil(end, now)
		switch date := end.UTC().Format(time.DateOnly); {
		case end.IsZero():
		case !now.Before(end):
			issues = append(issues, issue{issueExpiring, fmt.Sprintf("%s: a certificate expired on %s", label, date)})
		case left < days:
			issues = append(issues, issue{issueExpiring, fmt.Sprintf("%s: a certificate expires on %s, in %d days", label, date,
				left)})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(seen.authorities)) {
		add("CA "+name, seen.authorities[name])
	}
	for _, m := range seen.etcd.Machines {
		add(labelled("etcd member", m.Member, m.Address), m.CertificateExpiry)
	}
	for _, name := range slices.Sorted(maps.Keys(seen.replicas)) {
		r := seen.replicas[name]
		label, before := labelled("replica", name, r.Address), len(issues)
		for _, c := range r.Components {
			add(label+": "+c.Name, c.CertificateExpiry)
		}
		if len(issues) == before { // no component's certificate: that of the administrators' kubeconfig
			add(label+": admin.conf", r.CertificateExpiry)
		}
	}
	return issues
}
