package workspace

import (
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestFollow(t *testing.T) {
	const output = `{"@level":"info","@message":"Terraform 1.11.4","type":"version"}
not JSON at all
{"@timestamp":"2026-01-02T03:04:05.000000Z","type":"apply_start","hook":{"resource":{"addr":"a.b"},"action":"create"}}
{"@timestamp":"2026-01-02T03:04:06.500000Z","type":"apply_complete",` +
		`"hook":{"resource":{"addr":"a.b"},"action":"create"}}
{"type":"diagnostic","diagnostic":{"severity":"warning","summary":"careful","detail":"now"}}
{"type":"diagnostic","diagnostic":{"severity":"error","summary":"broken","detail":"here"}}
`
	var begun []string
	timings, diagnostics := follow(strings.NewReader(output), io.Discard, func(address string) {
		begun = append(begun, address)
	})
	if want := []Timing{{Address: "a.b", Action: "create", Took: 1500 * time.Millisecond}}; !slices.Equal(timings, want) {
		t.Errorf("timings are %v, want %v", timings, want)
	}
	if want := []string{"a.b"}; !slices.Equal(begun, want) {
		t.Errorf("begun are %q, want %q", begun, want)
	}
	if want := []Diagnostic{{"warning", "careful", "now"}, {"error", "broken", "here"}}; !slices.Equal(diagnostics, want) {
		t.Errorf("diagnostics are %q, want %q", diagnostics, want)
	}
	failure := FailedError{Err: io.EOF, Diagnostics: diagnostics}
	if got := failure.Errors(); len(got) != 1 || got[0].Summary != "broken" ||
		!strings.Contains(failure.Error(), "error: broken\nhere") {
		t.Errorf("errors are %q of\n%v", got, &failure)
	}
}
