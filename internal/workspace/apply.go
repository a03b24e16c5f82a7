package workspace

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
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
	timings, failures := follow(out, log, w.Started)
	if err := cmd.Wait(); err != nil {
		return timings, fmt.Errorf("run apply: %w\n%s%s", err, strings.Join(failures, "\n"), stderr.String())
	}
	return timings, nil
}

// follow reads events until the output ends, and tells begun of each resource
// that is begun.
func follow(out io.Reader, log io.Writer, begun func(address string)) (timings []Timing, failures []string) {
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
			failures = append(failures, e.Diagnostic.Severity+": "+e.Diagnostic.Summary+"\n"+e.Diagnostic.Detail)
		}
	}
	return timings, failures
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
