// Package problem is the shape of every failure a user sees: what went wrong
// where, what is unchanged, and what to do next.
package problem

import (
	"errors"
	"regexp"
	"strings"
)

// Problem is a failure that a person can act on. The zero value of every field
// but Summary is allowed.
type Problem struct {
	Summary   string // one short line: "etcd member not removed"
	Attribute string // Terraform path of the setting at fault: "version", "host.address"
	Host      string // the machine, as "cp1 (10.0.0.11)" or its address
	Cause     string // why
	Unchanged string // what was left as it was: "Nothing was changed."
	Next      string // the next step for the user
	Detail    string // a table or log lines, printed last, verbatim
	Err       error  // for errors.Is; not printed: put it into Cause
}

// Error gives the whole text on several lines.
func (p *Problem) Error() string { return p.Title() + "\n" + p.Text() }

// Title is the summary as it is shown.
func (p *Problem) Title() string { return Line(p.Summary) }

// Unwrap gives Err, so that sentinels can be asked for.
func (p *Problem) Unwrap() error { return p.Err }

// Text is the body below the summary. It may contain text from machines, so each part
// is made visible and bounded here, and no part can pass for another: a line within
// one never begins with a label.
func (p *Problem) Text() string {
	var b strings.Builder
	line := func(label, text string) {
		if text != "" {
			b.WriteString(label + unlabelled(shownWithin(text, maxField)) + "\n")
		}
	}
	line("Host: ", p.Host)
	line("Cause: ", p.Cause)
	line("Unchanged: ", p.Unchanged)
	line("Next step: ", p.Next)
	if p.Detail != "" {
		b.WriteString("\n" + unlabelled(shownWithin(strings.TrimRight(p.Detail, "\n"), maxDetail)) + "\n")
	}
	return b.String()
}

// label is what a line of Text begins with.
var label = regexp.MustCompile(`(?mi)^(Host|Cause|Unchanged|Next step):`)

// unlabelled indents the lines of text that look like ones of Text.
func unlabelled(text string) string { return label.ReplaceAllString(text, "  $0") }

// Nothing is the Unchanged text of a refusal that came before the first change.
const Nothing = "nothing was changed."

// Untaint is the next step for an object that a failed Create has left tainted and that is to be kept.
const Untaint = "to keep it, run terraform untaint ADDRESS (its address in Terraform), and then apply."

// Untouched reports whether err is a refusal before the first change, so that there
// is nothing to record or to clean up.
func Untouched(err error) bool {
	var p *Problem
	return errors.As(err, &p) && p.Unchanged == Nothing
}
