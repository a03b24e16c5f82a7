package problem

import (
	"context"
	"fmt"
)

type reportKey struct{}

// Report takes the lines of a long operation, for a log.
type Report struct {
	Progress func(line string) // one line per step that a user would name
	Detail   func(line string) // one line per remote command
}

// WithReport returns a context whose Progress and Detail calls reach r.
func WithReport(ctx context.Context, r Report) context.Context {
	return context.WithValue(ctx, reportKey{}, r)
}

// Progress reports one step as a visible line. Without WithReport it does
// nothing. Never pass a secret.
func Progress(ctx context.Context, format string, args ...any) {
	if r, ok := ctx.Value(reportKey{}).(Report); ok && r.Progress != nil {
		r.Progress(Line(fmt.Sprintf(format, args...)))
	}
}

// Detail reports one remote command, as Progress does a step.
func Detail(ctx context.Context, format string, args ...any) {
	if r, ok := ctx.Value(reportKey{}).(Report); ok && r.Detail != nil {
		r.Detail(Line(fmt.Sprintf(format, args...)))
	}
}

// ReportOf returns the report of a context. Both of its functions can be called.
func ReportOf(ctx context.Context) Report {
	r, _ := ctx.Value(reportKey{}).(Report)
	if r.Progress == nil {
		r.Progress = func(string) {}
	}
	if r.Detail == nil {
		r.Detail = func(string) {}
	}
	return r
}
