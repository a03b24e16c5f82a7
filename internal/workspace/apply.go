package workspace

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Timing is how long one resource took.
type Timing struct {
	Address string
	Action  string // "create", "update", "delete"
	Took    time.Duration
}

// event is a line of Terraform's machine-readable output, as far as it is used
// here. See "Machine-Readable UI" in Terraform's documentation.
type event struct {
	Level     string    `json:"@level"`
	Message   string    `json:"@message"`
	Timestamp time.Time `json:"@timestamp"`
	Type      string    `json:"type"`
	Hook      struct {
		Resource struct {
			Address string `json:"addr"`
		} `json:"resource"`
		Action string `json:"action"`
	} `json:"hook"`
	Diagnostic struct {
		Severity string `json:"severity"`
		Summary  string `json:"summary"`
		Detail   string `json:"detail"`
	} `json:"diagnostic"`
}

// Apply runs an apply (or, with "-destroy", a destroy) with progress lines on
// log, and returns how long each resource took, in the order in which they ended.
func (w *Workspace) Apply(ctx context.Context, log io.Writer, args ...string) ([]Timing, error) {
	cmd := w.Command(ctx, append([]string{"apply", "-json", "-input=false", "-auto-approve"}, args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("run apply: %w", err)
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("run apply: %w", err)
	}
	timings, diagnostics := follow(out, log, w.Started)
	if err := cmd.Wait(); err != nil {
		return timings, &FailedError{Err: err, Diagnostics: diagnostics, Stderr: stderr.String()}
	}
	return timings, nil
}

// Diagnostic is one error or warning of an apply.
type Diagnostic struct{ Severity, Summary, Detail string }

// FailedError is a failed apply with its diagnostics.
type FailedError struct {
	Err         error
	Diagnostics []Diagnostic
	Stderr      string
}

func (e *FailedError) Error() string {
	var lines []string
	for _, d := range e.Diagnostics {
		lines = append(lines, d.Severity+": "+d.Summary+"\n"+d.Detail)
	}
	return fmt.Sprintf("run apply: %v\n%s%s", e.Err, strings.Join(lines, "\n"), e.Stderr)
}

// Unwrap returns the exit of the CLI.
func (e *FailedError) Unwrap() error { return e.Err }

// Errors are the diagnostics that are not warnings.
func (e *FailedError) Errors() []Diagnostic {
	return slices.DeleteFunc(slices.Clone(e.Diagnostics), func(d Diagnostic) bool { return d.Severity != "error" })
}

// follow reads events until the output ends, and calls begun for each resource that
// an apply begins.
func follow(out io.Reader, log io.Writer, begun func(address string)) (timings []Timing, diagnostics []Diagnostic) {
	started := map[string]time.Time{}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			continue
		}
		address := e.Hook.Resource.Address
		switch e.Type {
		case "apply_start":
			started[address] = e.Timestamp
			if begun != nil {
				begun(address)
			}
		case "apply_complete":
			t := Timing{Address: address, Action: e.Hook.Action, Took: e.Timestamp.Sub(started[address])}
			timings = append(timings, t)
			fmt.Fprintf(log, "  %-8s %-46s %6.1f s\n", done(t.Action), t.Address, t.Took.Seconds())
		case "diagnostic":
			diagnostics = append(diagnostics, Diagnostic(e.Diagnostic))
		}
	}
	return timings, diagnostics
}

// done is the past of an action, for progress lines.
func done(action string) string {
	switch action {
	case "create":
		return "created"
	case "update":
		return "changed"
	case "delete":
		return "removed"
	}
	return action
}
