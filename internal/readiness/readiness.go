// Package readiness reviews whether a control plane is ready for production, based on its
// observed state. It is pure: the caller provides plain values. A value that could not be read
// counts neither as good nor as bad.
package readiness

import (
	"fmt"
	"slices"
	"strings"
)

// Status is the outcome of one item.
type Status string

// The outcomes, from good to bad. Unknown is worse than a known warning, because the actual
// outcome may be a failure.
const (
	Pass    Status = "pass"
	Warn    Status = "warn"
	Unknown Status = "unknown"
	Fail    Status = "fail"
)

var severity = []Status{Pass, Warn, Unknown, Fail}

// worse returns the worse of two outcomes.
func worse(a, b Status) Status {
	return severity[max(slices.Index(severity, a), slices.Index(severity, b))]
}

// Finding is the result of one item of the review.
type Finding struct {
	ID       string
	Title    string
	Status   Status
	Evidence string // the observed state
	Remedy   string // "" if it passes
}

// verdict is the result of an item's rule.
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

// Ready reports whether no item fails and no item is unknown.
func Ready(findings []Finding) bool {
	return len(findings) > 0 && !slices.ContainsFunc(findings, func(f Finding) bool {
		return f.Status == Fail || f.Status == Unknown
	})
}

// combine combines several verdicts, each with its name. The status is the worst of them, and
// the evidence lists those that do not pass. If all have the same evidence, it is listed once
// without names.
func combine(of string, names []string, each func(i int) verdict) verdict {
	if len(names) == 0 {
		return unknown("no %s is known", of)
	}
	out := verdict{status: Pass}
	byEvidence := map[string][]string{}
	var order []string
	for i, name := range names {
		v := each(i)
		out.status = worse(out.status, v.status)
		if _, known := byEvidence[v.evidence]; !known {
			order = append(order, v.evidence)
		}
		byEvidence[v.evidence] = append(byEvidence[v.evidence], name)
	}
	var words []string
	for _, evidence := range order {
		if len(byEvidence[evidence]) == len(names) {
			words = append(words, evidence)
			continue
		}
		words = append(words, strings.Join(byEvidence[evidence], ", ")+": "+evidence)
	}
	out.evidence = strings.Join(words, "; ")
	return out
}

// everyReplica judges every replica. A replica that could not be read is unknown.
func everyReplica(e Evidence, judge func(Replica) verdict) verdict {
	names := make([]string, len(e.Replicas))
	for i, r := range e.Replicas {
		names[i] = r.Name
	}
	if e.ReplicasUnread != "" {
		return unknown("%s", e.ReplicasUnread)
	}
	return combine("replica", names, func(i int) verdict {
		if r := e.Replicas[i]; r.Unread == "" {
			return judge(r)
		}
		return unknown("%s", e.Replicas[i].Unread)
	})
}

// everyMember is everyReplica for etcd's members.
func everyMember(e Evidence, judge func(Member) verdict) verdict {
	names := make([]string, len(e.Members))
	for i, m := range e.Members {
		names[i] = m.Name
	}
	return combine("etcd member", names, func(i int) verdict {
		if m := e.Members[i]; m.Unread == "" {
			return judge(m)
		}
		return unknown("%s", e.Members[i].Unread)
	})
}
