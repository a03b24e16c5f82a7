package host

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

func TestNotBegun(t *testing.T) {
	if err := NotBegun(nil, problem.Problem{Summary: "no"}); err != nil {
		t.Errorf("nil became %v", err)
	}
	refused := &problem.Problem{Summary: "refused", Unchanged: "the other machines."}
	if err := NotBegun(fmt.Errorf("x: %w", refused), problem.Problem{}); problem.Untouched(err) {
		t.Errorf("a problem became %v", err)
	}
	const access = "recover the machine"
	for name, c := range map[string]struct {
		err  error
		next string
	}{
		"held":         {&HeldError{Name: "etcd"}, "wait until the other process has ended, then apply again"},
		"out of time":  {context.DeadlineExceeded, "apply again; if it times out again, raise the timeouts of this resource"},
		"no answer":    {fmt.Errorf("%w: %w", ErrUnreachable, context.DeadlineExceeded), access},
		"another kind": {errors.New("x"), access},
	} {
		err := NotBegun(fmt.Errorf("wait: %w", c.err), problem.Problem{Summary: "Not created", Next: access})
		var p *problem.Problem
		if !errors.As(err, &p) || p.Next != c.next || !problem.Untouched(err) || !errors.Is(err, c.err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
