package host

import (
	"cmp"
	"context"
	"errors"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// NotBegun returns the failure of a step before the first change as p, which then says so: a Create leaves no state
// after it. The next step of p is for errors that are neither the lease of another process nor the end of the time. An
// error that is a problem already says what is unchanged. nil stays nil.
func NotBegun(err error, p problem.Problem) error {
	if err == nil || errors.As(err, new(*problem.Problem)) {
		return err
	}
	p.Cause, p.Err, p.Unchanged, p.Next = err.Error(), err, problem.Nothing, cmp.Or(waitRemedy(err), p.Next)
	return &p
}

// waitRemedy returns the next step after a wait, or "" if err says that a machine did not answer, or something else.
func waitRemedy(err error) string {
	switch {
	case Unanswered(err):
	case errors.As(err, new(*HeldError)):
		return "wait until the other process has ended, then apply again"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "apply again; if it times out again, raise the timeouts of this resource"
	}
	return ""
}
