package health

import (
	"fmt"
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// fullAt is the share of its quota from which a database's size is an issue. When the quota is
// full, etcd refuses writes.
const fullAt = 0.8

func etcdIssues(h etcd.Health) []Issue {
	var issues []Issue
	switch {
	case h.Silence != nil && !slices.ContainsFunc(h.Machines, func(m etcd.Machine) bool { return m.Err == nil }):
		issues = append(issues, Issue{Unreachable, "etcd: none of its machines can be observed, so its state " +
			"is unknown"})
	case h.Silence != nil:
		issues = append(issues, unhealthy("etcd: %s", problem.Indented(h.Silence.Error())))
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
			problem.Indented(d.Problem)))
	}
	for _, m := range h.Machines {
		if m.SnapshotFailed != "" {
			issues = append(issues, unhealthy("%s: the last run of etcd-snapshot.service failed (%s); check its "+
				"log (journalctl -u etcd-snapshot.service)", Labelled("etcd member", m.Member, m.Address), m.SnapshotFailed))
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
func memberIssues(h etcd.Health, m membership.MemberStatus) []Issue {
	var issues []Issue
	label := Labelled("etcd member", m.Name, m.Address)
	for _, words := range m.Problems() {
		issues = append(issues, unhealthy("%s %s", label, words))
	}
	for _, machine := range h.Machines {
		if machine.Address == m.Address && machine.Err == nil && machine.Unit != "active" {
			issues = append(issues, unhealthy("%s: etcd.service is %s", label, orMissing(machine.Unit)))
		}
	}
	if share, known := QuotaUsed(h, m); known && share >= fullAt {
		issues = append(issues, unhealthy("%s: its database uses %.0f %% of its quota of %s; etcd refuses writes "+
			"when the quota is exceeded", label, share*100, sizeText(h.QuotaOf(m))))
	}
	return issues
}

// unlistedIssues returns the issues of an observed machine that has no member in the cluster's
// member list, or for which no member list is available.
func unlistedIssues(h etcd.Health, m etcd.Machine) []Issue {
	label := Labelled("etcd member", m.Member, m.Address)
	switch {
	case m.Foreign != "":
		return []Issue{unhealthy("machine %s has %s", m.Address, m.Foreign)}
	case m.Member == "":
		return []Issue{unhealthy("machine %s: it has no etcd member of this cluster", m.Address)}
	case h.Silence == nil:
		return []Issue{unhealthy("%s: the cluster does not list it, but its machine still has its files", label)}
	case m.Unit != "active":
		return []Issue{unhealthy("%s: etcd.service is %s", label, orMissing(m.Unit))}
	}
	return nil
}

func orMissing(state string) string {
	if state == "" {
		return "missing"
	}
	return state
}

// QuotaUsed returns the share of its quota that a member's database uses: 1 if the quota is full. It is not known
// without a quota or a size.
func QuotaUsed(h etcd.Health, m membership.MemberStatus) (share float64, known bool) {
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
