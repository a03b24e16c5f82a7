package problem

import (
	"context"
	"fmt"
)

type progressKey struct{}

// WithProgress returns a context whose Progress calls reach report: one line
// per step of a long operation, for a log.
func WithProgress(ctx context.Context, report func(line string)) context.Context {
	return context.WithValue(ctx, progressKey{}, report)
}

// Progress reports one step. Without WithProgress it does nothing. Never pass
// a secret.
func Progress(ctx context.Context, format string, args ...any) {
	if report, ok := ctx.Value(progressKey{}).(func(string)); ok {
		report(fmt.Sprintf(format, args...))
	}
}
