package host

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestInTime: a machine that accepts connections and hangs fails an observation before the operation ends, with an
// error that names it and never counts as lost.
func TestInTime(t *testing.T) {
	_, h := newMachine(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	err := InTime(ctx, h.Address(), func(ctx context.Context) error {
		_, err := h.Observe(ctx, Query{Script: "sleep 300"})
		return err
	})
	if !errors.Is(err, ErrNoAnswer) || errors.Is(err, ErrUnreachable) || ctx.Err() != nil {
		t.Fatalf("error %v, want ErrNoAnswer before the operation ends (%v)", err, ctx.Err())
	}
	mustContain(t, err, h.Address())
	if !Unanswered(err) || Unreachable(err) || AbandonedAt(h.Address()).Covers(h.Address(), err) {
		t.Errorf("a machine that hangs is lost: %v", err)
	}
}

// TestInTimeKeepsErrors: only the limit itself becomes ErrNoAnswer.
func TestInTimeKeepsErrors(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	failed := fmt.Errorf("dial: %w", ErrUnreachable)
	for name, c := range map[string]struct {
		ctx  context.Context
		err  error
		want error
	}{
		"an answer":                      {t.Context(), nil, nil},
		"unreachable":                    {t.Context(), failed, failed},
		"the operation ends":             {ended, context.Canceled, context.Canceled},
		"a shorter limit of the request": {t.Context(), context.DeadlineExceeded, context.DeadlineExceeded},
	} {
		err := InTime(c.ctx, "10.0.0.11", func(context.Context) error { return c.err })
		if !errors.Is(err, c.want) || errors.Is(err, ErrNoAnswer) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// TestInTimeWithoutConnection: a machine to which there is no connection in the whole time is unreachable. One that had
// less time is not.
func TestInTimeWithoutConnection(t *testing.T) { synctest.Test(t, inTimeWithoutConnection) }

func inTimeWithoutConnection(t *testing.T) {
	dial := func(ctx context.Context) error {
		<-ctx.Done()
		return fmt.Errorf("%w: %w", errNotConnected, ctx.Err())
	}
	err := Within(t.Context(), 10*time.Millisecond, "10.0.0.11", dial)
	if !AbandonedAt("10.0.0.11").Covers("10.0.0.11", err) {
		t.Errorf("%v, want one that is unreachable", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if err := Within(ctx, time.Minute, "10.0.0.11", dial); !errors.Is(err, ErrNoAnswer) || errors.Is(err, ErrUnreachable) {
		t.Errorf("%v, want ErrNoAnswer", err)
	}
}

// TestAnswerLimit: a third of the time is left for the caller.
func TestAnswerLimit(t *testing.T) {
	if got := AnswerLimit(t.Context(), longestAnswer); got != longestAnswer {
		t.Errorf("without a deadline: %v", got)
	}
	for left, want := range map[time.Duration]time.Duration{
		30 * time.Second: 20 * time.Second, time.Minute: 40 * time.Second, time.Hour: longestAnswer,
	} {
		ctx, cancel := context.WithTimeout(t.Context(), left)
		if got := AnswerLimit(ctx, longestAnswer); got > want || got < want-time.Second {
			t.Errorf("%v left: %v, want %v", left, got, want)
		}
		cancel()
	}
}
