package controlplane

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

func TestWaitForOthersRetries(t *testing.T) {
	held := &problem.Problem{Summary: "another replica is out of rotation", Unchanged: problem.Nothing}
	refusal := fmt.Errorf("%w: %w", errNotDrained, held)
	half := fmt.Errorf("%w: %w", errNotDrained, &problem.Problem{Summary: "a balancer broke"})
	for name, c := range map[string]struct {
		answers []error // one per call; the last one is the result
	}{
		"at once":                              {[]error{nil}},
		"until the others are back":            {[]error{refusal, nil}},
		"not for what is no refusal":           {[]error{held}},
		"not for a drain that was begun":       {[]error{half}},
		"nor for anything else after a while":  {[]error{refusal, half}},
		"the refusal may change while waiting": {[]error{refusal, fmt.Errorf("%w again: %w", errNotDrained, held), nil}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			calls := 0
			err := NewReplicas(nil).waitForOthers(t.Context(), calm(t), false, func() error {
				calls++
				return c.answers[calls-1]
			})
			if want := c.answers[len(c.answers)-1]; !errors.Is(err, want) || calls != len(c.answers) {
				t.Errorf("%v after %d calls, want %v after %d", err, calls, want, len(c.answers))
			}
		})
	}
}

func TestWaitForOthersIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	err := NewReplicas(nil).waitForOthers(ctx, calm(t), false, func() error {
		cancel()
		return fmt.Errorf("%w: %w", errNotDrained, &problem.Problem{Summary: "cp2 is out", Unchanged: problem.Nothing})
	})
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "cp2 is out") {
		t.Errorf("error %v, want that the caller ended, and what it waited for", err)
	}
}

// calm returns a replica whose endpoint has all others in rotation.
func calm(t *testing.T) Spec {
	t.Helper()
	s := testSpec(t)
	s.Registrar = &recordingRegistrar{}
	return s
}
