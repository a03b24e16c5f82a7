package health

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Summary returns a summary of a control plane in one line. The argument issues is the number of its issues.
func Summary(seen ControlPlane, issues int, now time.Time) string {
	if seen.NotQueried != "" {
		return "not queried: " + seen.NotQueried
	}
	var words []string
	if seen.Etcd.Silence != nil {
		words = append(words, "etcd does not answer")
	} else {
		voters, healthy, _ := seen.Etcd.Voting()
		words = append(words, fmt.Sprintf("%d of %d etcd members healthy%s", healthy, voters,
			parenthesized("leader ", seen.Etcd.Leader())))
	}
	ready, versions := 0, map[string]bool{}
	for name, r := range seen.Replicas {
		if r.Name == name && r.Healthy() && seen.Endpoint.Registered(name) {
			ready++
		}
		if r.Version != "" {
			versions[r.Version] = true
		}
	}
	words = append(words,
		fmt.Sprintf("%d of %d replicas in rotation and ready%s", ready, len(seen.Replicas),
			parenthesized("", strings.Join(slices.Sorted(maps.Keys(versions)), ", "))),
		seen.Endpoint.where())
	if end := firstExpiry(seen); !end.IsZero() {
		words = append(words, fmt.Sprintf("first certificate expires in %d days", DaysUntil(end, now)))
	}
	return issueCount(issues) + ": " + strings.Join(words, "; ")
}

// issueCount returns the number of issues as text.
func issueCount(issues int) string {
	switch issues {
	case 0:
		return "healthy"
	case 1:
		return "1 issue"
	}
	return fmt.Sprintf("%d issues", issues)
}

func parenthesized(before, text string) string {
	if text == "" {
		return ""
	}
	return " (" + before + text + ")"
}
