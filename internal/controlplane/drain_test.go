package controlplane

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

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

// TestDrainWait: how long a replica waits for others that are observed once per second.
func TestDrainWait(t *testing.T) {
	alone, changing := []orphan{{"cp1", false}}, []orphan{{"cp1", true}}
	for _, c := range []struct {
		name         string
		duringMember bool
		see          func(second int) (orphans []orphan, comes bool)
		ends         int // the second in which it gives up
		futile       bool
	}{
		{"others that may come back", false, func(int) ([]orphan, bool) { return nil, false }, 31, false},
		{"a member that nobody makes", false, func(int) ([]orphan, bool) { return alone, false }, 5, true},
		{"a member that is made soon after", false, func(second int) ([]orphan, bool) {
			switch {
			case second < 3:
				return alone, false
			case second < 100:
				return changing, false
			}
			return nil, false
		}, 130, false},
		{"a member whose making waits for this", true, func(int) ([]orphan, bool) { return changing, false }, 5, true},
		{"a member that is made, then one that is not", false, func(second int) ([]orphan, bool) {
			if second < 50 {
				return changing, false
			}
			return alone, false
		}, 55, true},
		{"a member that nobody makes, between two that are made", false, func(second int) ([]orphan, bool) {
			if second >= 3 && second < 10 {
				return nil, false
			}
			return alone, false
		}, 15, true},
		{"a replica that is being made", false, func(second int) ([]orphan, bool) { return nil, second < 60 }, 90, false},
		{
			"a replica that is being made, during a member's change", true, func(int) ([]orphan, bool) { return nil, true }, 31,
			false,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := drainWait{duringMember: c.duringMember}
			begin := time.Unix(1000, 0)
			for second := 0; second < 1000; second++ {
				at := begin.Add(time.Duration(second) * time.Second)
				if p.expired(at) {
					if second != c.ends || c.futile {
						t.Errorf("over after %d s, want %d (futile: %t)", second, c.ends, c.futile)
					}
					return
				}
				if first := p.begin(at); first != (second == 0) {
					t.Fatalf("second %d begins: %t", second, first)
				}
				orphans, comes := c.see(second)
				if p.update(at, orphans, comes) {
					if second != c.ends || !c.futile {
						t.Errorf("futile after %d s, want %d (futile: %t)", second, c.ends, c.futile)
					}
					return
				}
			}
			t.Error("it waits for ever")
		})
	}
}

func TestFutileWaitProblem(t *testing.T) {
	held := &problem.Problem{
		Summary: "cp2 not taken out", Cause: "another replica is out", Unchanged: problem.Nothing, Next: "bring it back",
		Detail: "table",
	}
	err := futileWaitProblem(fmt.Errorf("%w: %w", errNotDrained, held), []orphan{{"cp1 (10.0.0.11)", false}})
	var p *problem.Problem
	if !errors.As(err, &p) || !problem.Untouched(err) || !errors.Is(err, errNotDrained) {
		t.Fatalf("%v", err)
	}
	for _, part := range []string{
		"another replica is out", "cp1 (10.0.0.11) stays out of rotation until the etcd member", "one etcd member at a time",
		"table",
	} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in %v", part, err)
		}
	}
	other := errors.New("not a refusal")
	if err := futileWaitProblem(other, nil); !errors.Is(err, other) {
		t.Errorf("%v", err)
	}
	if held.Next != "bring it back" {
		t.Error("the refusal itself was changed")
	}
}
