package host

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// longestAnswer limits the time of one machine's answer to an observation, if the operation has more.
const longestAnswer = time.Minute

// InTime observes the machine at an address by ask, whose context ends before ctx does: after two thirds of the time
// that is left, or after a minute. So one machine that hangs does not take the time in which others answer, or in
// which the caller says which one it was. InTime then fails with ErrNoAnswer; with ErrUnreachable if there was no
// connection in the whole minute. Only an observation may be limited so: a change that is cut off has to be
// completed.
func InTime(ctx context.Context, address string, ask func(ctx context.Context) error) error {
	return Within(ctx, longestAnswer, address, ask)
}

// Within is InTime with another limit than a minute.
func Within(ctx context.Context, limit time.Duration, address string, ask func(ctx context.Context) error) error {
	allowed := AnswerLimit(ctx, limit)
	asking, cancel := context.WithTimeout(ctx, allowed)
	defer cancel()
	err := ask(asking)
	if !errors.Is(err, context.DeadlineExceeded) || asking.Err() == nil || ctx.Err() != nil {
		return err
	}
	if errors.Is(err, errNotConnected) && allowed == limit {
		return fmt.Errorf("%s on %s: %w: no connection within %s", ObserveSummary, address, ErrUnreachable,
			allowed.Round(time.Second))
	}
	return fmt.Errorf("%s on %s: %w: it had %s", ObserveSummary, address, ErrNoAnswer, allowed.Round(time.Second))
}

// AnswerLimit returns how long one machine may take to answer: longest at most, and two thirds of the time left.
func AnswerLimit(ctx context.Context, longest time.Duration) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return longest
	}
	return min(longest, time.Until(deadline)*2/3)
}
