package health

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// The kinds of issues, with the values that fail_on accepts.
const (
	Unreachable = "unreachable" // it could not be queried
	Unhealthy   = "unhealthy"   // it was queried, and a problem was detected
	Expiring    = "expiring"    // a certificate has expired or expires soon
)

// Kinds are the kinds of issues.
var Kinds = []string{Unreachable, Unhealthy, Expiring}

// Issue is one detected problem.
type Issue struct {
	Kind string // one of Kinds
	Text string // a sentence
}

// Issues returns all issues of an observed control plane: machines first, then etcd, the endpoint, the replicas and
// certificates. A certificate counts if it expires within a number of days from now. The function is pure.
func Issues(seen ControlPlane, days int64, now time.Time) []Issue {
	if seen.NotQueried != "" {
		return []Issue{{Unreachable, "the control plane was not queried: " + seen.NotQueried}}
	}
	return slices.Concat(
		machineIssues(seen),
		etcdIssues(seen.Etcd),
		endpointIssues(seen.Endpoint),
		replicaIssues(seen),
		certificateIssues(seen, days, now),
	)
}

// machineIssues returns one issue for each machine that could not be observed, with the
// components that are on it.
func machineIssues(seen ControlPlane) []Issue {
	why, parts := map[string]error{}, map[string][]string{}
	add := func(address, part string, err error) {
		if err != nil {
			why[address] = err // any of them: only their wording differs
			parts[address] = append(parts[address], part)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(seen.Endpoint.Balancers)) {
		b := seen.Endpoint.Balancers[name]
		add(b.Address, "balancer "+name, b.Err)
	}
	for _, m := range seen.Etcd.Machines {
		add(m.Address, strings.TrimSpace("etcd member "+memberAddressed(seen.Etcd, m.Address)), m.Err)
	}
	for _, name := range slices.Sorted(maps.Keys(seen.Replicas)) {
		r := seen.Replicas[name]
		add(r.Address, "replica "+name, r.Err)
	}
	var issues []Issue
	for _, address := range slices.Sorted(maps.Keys(why)) {
		issues = append(issues,
			Issue{Unreachable, fmt.Sprintf("machine %s with %s: %s", address, enumerated(parts[address]),
				UnreachedBecause(why[address], address))})
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

// UnreachedBecause returns why the machine at an address could not be observed, without the parts that a sentence about
// the machine already contains. The text may have several lines.
func UnreachedBecause(err error, address string) string {
	var key *host.HostKeyError
	switch {
	case errors.As(err, &key):
		return key.Error()
	case errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, host.ErrUnreachable):
		return "no answer within the time limit of this data source"
	}
	return problem.Indented(strings.TrimPrefix(err.Error(), "observe the machine on "+address+": "))
}

// enumerated joins words as "a, b and c".
func enumerated(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

// Labelled returns the kind and the name of a component together with the address of its machine. The name or the
// address may be "".
func Labelled(kind, name, address string) string {
	switch {
	case name == "":
		return kind + " on " + address
	case address == "" || name == address:
		return kind + " " + name
	}
	return fmt.Sprintf("%s %s (%s)", kind, name, address)
}

func unhealthy(format string, args ...any) Issue {
	return Issue{Unhealthy, fmt.Sprintf(format, args...)}
}
