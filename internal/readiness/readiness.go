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

// unseen is what machines that answer do not show. It is reported as Unknown, and can be accepted:
// what could not be observed for a failure is worse, because it may be different from one hour to
// the next.
const unseen Status = "unseen"

var severity = []Status{Pass, Warn, unseen, Unknown, Fail}

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
	// Acceptable says that a user may decide to live with it: a warning, or what machines do not
	// show.
	Acceptable bool
	Accepted   bool // the user did, and it is acceptable
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

func notShown(format string, args ...any) verdict {
	return verdict{unseen, fmt.Sprintf(format, args...)}
}

// IDs returns the identifiers of all items, in the order of the review.
func IDs() []string {
	var ids []string
	for _, item := range items {
		ids = append(ids, item.id)
	}
	return ids
}

// Judge judges every item, in the order of the review. accepted has the identifiers of the items
// that need not pass: a warning, or what machines do not show.
func Judge(e Evidence, accepted ...string) []Finding {
	var findings []Finding
	for _, item := range items {
		v := item.judge(e)
		title, remedy := item.words(e)
		f := Finding{
			ID: item.id, Title: title, Status: v.status, Evidence: v.evidence,
			Acceptable: v.status == Warn || v.status == unseen,
		}
		f.Accepted = f.Acceptable && slices.Contains(accepted, item.id)
		if v.status == unseen {
			f.Status = Unknown
		}
		if v.status != Pass {
			f.Remedy = remedy
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

// Ready reports whether every item passes or is accepted.
func Ready(findings []Finding) bool {
	return len(findings) > 0 && !slices.ContainsFunc(findings, func(f Finding) bool {
		return f.Status != Pass && !f.Accepted
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
