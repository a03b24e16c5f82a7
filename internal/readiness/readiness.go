// Package readiness judges whether a control plane is ready for production, by
// what was read of it. It is pure: whoever reads gives plain values, and what
// could not be read is never taken for good or bad.
package readiness

import (
	"fmt"
	"slices"
	"strings"
)

// Status is the outcome of one item.
type Status string

// The outcomes, from good to bad. What is not known is worse than what is
// known to be middling, because it may be anything.
const (
	Pass    Status = "pass"
	Warn    Status = "warn"
	Unknown Status = "unknown"
	Fail    Status = "fail"
)

var severity = []Status{Pass, Warn, Unknown, Fail}

// worse is the worse of two outcomes.
func worse(a, b Status) Status {
	return severity[max(slices.Index(severity, a), slices.Index(severity, b))]
}

// Finding is one item of the review as it was judged.
type Finding struct {
	ID       string
	Title    string
	Status   Status
	Evidence string // what was found
	Remedy   string // "" where it passes
}

// verdict is what an item's rule says.
type verdict struct {
	status   Status
	evidence string
}

func pass(format string, args ...any) verdict { return verdict{Pass, fmt.Sprintf(format, args...)} }
func warn(format string, args ...any) verdict { return verdict{Warn, fmt.Sprintf(format, args...)} }
func fail(format string, args ...any) verdict { return verdict{Fail, fmt.Sprintf(format, args...)} }
func unknown(format string, args ...any) verdict {
	return verdict{Unknown, fmt.Sprintf(format, args...)}
}

// Judge judges every item, in the order of the review.
func Judge(e Evidence) []Finding {
	var findings []Finding
	for _, item := range items {
		v := item.judge(e)
		f := Finding{ID: item.id, Title: item.title, Status: v.status, Evidence: v.evidence}
		if v.status != Pass {
			f.Remedy = item.remedy
		}
		findings = append(findings, f)
	}
	return findings
}

// Score counts the items that pass.
func Score(findings []Finding) int {
	passed := 0
	for _, f := range findings {
		if f.Status == Pass {
			passed++
		}
	}
	return passed
}

// Ready reports whether nothing fails and everything is known.
func Ready(findings []Finding) bool {
	return len(findings) > 0 && !slices.ContainsFunc(findings, func(f Finding) bool { return f.Status == Fail || f.Status == Unknown })
}

// together is one verdict of several, each on what it is of: the worst of them,
// and in words those that do not pass. Where all say the same, it is said once.
func together(of string, names []string, each func(i int) verdict) verdict {
	if len(names) == 0 {
		return unknown("no %s is known", of)
	}
	out := verdict{status: Pass}
	said := map[string][]string{}
	var order []string
	for i, name := range names {
		v := each(i)
		out.status = worse(out.status, v.status)
		if _, known := said[v.evidence]; !known {
			order = append(order, v.evidence)
		}
		said[v.evidence] = append(said[v.evidence], name)
	}
	var words []string
	for _, evidence := range order {
		if len(said[evidence]) == len(names) {
			words = append(words, evidence)
			continue
		}
		words = append(words, strings.Join(said[evidence], ", ")+": "+evidence)
	}
	out.evidence = strings.Join(words, "; ")
	return out
}

// overReplicas judges every replica; one that could not be read is unknown.
func overReplicas(e Evidence, judge func(Replica) verdict) verdict {
	names := make([]string, len(e.Replicas))
	for i, r := range e.Replicas {
		names[i] = r.Name
	}
	if e.ReplicasUnread != "" {
		return unknown("%s", e.ReplicasUnread)
	}
	return together("replica", names, func(i int) verdict {
		if r := e.Replicas[i]; r.Unread == "" {
			return judge(r)
		}
		return unknown("%s", e.Replicas[i].Unread)
	})
}

// overMembers is overReplicas of etcd's members.
func overMembers(e Evidence, judge func(Member) verdict) verdict {
	names := make([]string, len(e.Members))
	for i, m := range e.Members {
		names[i] = m.Name
	}
	return together("etcd member", names, func(i int) verdict {
		if m := e.Members[i]; m.Unread == "" {
			return judge(m)
		}
		return unknown("%s", e.Members[i].Unread)
	})
}
