package load

import (
	"fmt"
	"slices"
	"strings"
)

// Operation is what a client does, as far as failures are counted.
type Operation string

// The operations of the clients.
const (
	APIRequest   Operation = "requests to the API"
	EtcdWrite    Operation = "writes into etcd"
	WatchOpening Operation = "openings of watches"
)

// Excuse describes failures that do not violate criteria, and why. They are failures for the
// caller, and are counted as such.
type Excuse struct {
	Operation Operation
	Kinds     []string // the kinds of errors, as in ErrorCount; empty: every kind
	Texts     []string // the error contains one of these texts; empty: any text
	Most      int      // for each client or watch, further ones are not excused; 0: no limit
	Reason    string
}

// String returns a text for people.
func (e Excuse) String() string {
	text := string(e.Operation) + " that fail"
	if len(e.Kinds) > 0 {
		text += " with " + strings.Join(e.Kinds, " or ")
	}
	for i, part := range e.Texts {
		text += fmt.Sprintf([]string{" and the text %q", " or %q"}[min(i, 1)], part)
	}
	if e.Most > 0 {
		text += fmt.Sprintf(", at most %d", e.Most)
	}
	return text + ": " + e.Reason
}

func (e Excuse) matches(err error) bool {
	contained := func(text string) bool { return strings.Contains(err.Error(), text) }
	return (len(e.Kinds) == 0 || slices.Contains(e.Kinds, kind(err))) &&
		(len(e.Texts) == 0 || slices.ContainsFunc(e.Texts, contained))
}

// excuser applies the excuses for one operation of one client or watch.
type excuser struct {
	excuses []Excuse
	used    []int // of each excuse
}

// excusing returns the excuses that criteria have for an operation.
func (c Criteria) excusing(o Operation) *excuser {
	of := slices.DeleteFunc(slices.Clone(c.Excuses), func(e Excuse) bool { return e.Operation != o })
	return &excuser{excuses: of, used: make([]int, len(of))}
}

// excuse returns the reason why an error is excused, or "".
func (e *excuser) excuse(err error) string {
	for i, known := range e.excuses {
		if known.matches(err) && (known.Most == 0 || e.used[i] < known.Most) {
			e.used[i]++
			return known.Reason
		}
	}
	return ""
}
