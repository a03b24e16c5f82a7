package soak

import (
	"errors"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

func TestEndingOf(t *testing.T) {
	refusal := workspace.Diagnostic{
		Severity: "error", Summary: "not now",
		Detail: "Cause: a\nUnchanged: nothing was changed.\nNext step: b",
	}
	broken := workspace.Diagnostic{Severity: "error", Summary: "broken", Detail: "Cause: c\nUnchanged: the other members."}
	warning := workspace.Diagnostic{Severity: "warning", Summary: "careful", Detail: "d"}
	some := []workspace.Timing{{Address: "a.b"}}
	for _, c := range []struct {
		name        string
		done        []workspace.Timing
		diagnostics []workspace.Diagnostic
		want        applyOutcome
	}{
		{"a refusal", nil, []workspace.Diagnostic{warning, refusal}, refused},
		{"a refusal after a part", some, []workspace.Diagnostic{refusal}, stopped},
		{"one of two touched something", nil, []workspace.Diagnostic{refusal, broken}, failing},
		{"it says nothing", nil, []workspace.Diagnostic{warning}, failing},
	} {
		err := &workspace.FailedError{Err: errors.New("exit status 1"), Diagnostics: c.diagnostics}
		if got := outcomeOf(c.done, err); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	if got := outcomeOf(some, nil); got != applied {
		t.Errorf("a success: %s", got)
	}
	if got := outcomeOf(nil, errors.New("no such program")); got != failing {
		t.Errorf("no apply at all: %s", got)
	}
	err := &workspace.FailedError{Diagnostics: []workspace.Diagnostic{refusal, refusal, warning}}
	if got := errorsOf(err); strings.Count(got, "not now") != 1 || strings.Contains(got, "careful") ||
		strings.Contains(got, "\n") {
		t.Errorf("it complains %q", got)
	}
}
