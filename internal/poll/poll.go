// Package poll waits until a condition holds.
package poll

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Until calls condition at once, and again an interval after each call has ended. It returns true as soon as condition
// does. It returns false without an error when the next call would be later than limit. An error is that of condition,
// which ends the wait, or ctx's. A call that has begun is not cut off at limit.
func Until(ctx context.Context, interval, limit time.Duration, condition func() (bool, error)) (bool, error) {
	end, met := time.Now().Add(limit), false
	// Not wait.PollUntilContextTimeout: it cuts off a call at the limit, and does not wait after a call that has lasted
	// as long as an interval.
	err := wait.Backoff{Duration: interval}.DelayFunc().Until(ctx, true, true,
		func(ctx context.Context) (bool, error) {
			var err error
			if met, err = condition(); met || err != nil {
				return met, err
			}
			return time.Now().Add(interval).After(end), ctx.Err()
		})
	return met, err
}

// Succeed calls try at once, and again an interval after each call has ended, until it returns nil. It returns the last
// error of try when the next call would be later than limit, or when ctx has ended during it. If ctx ends between two
// calls, it returns that error and ctx's.
func Succeed(ctx context.Context, interval, limit time.Duration, try func(context.Context) error) error {
	var failed error
	_, err := Until(ctx, interval, limit, func() (bool, error) {
		failed = try(ctx)
		return failed == nil || ctx.Err() != nil, nil
	})
	if err != nil {
		return fmt.Errorf("%w while waiting: %w", err, failed)
	}
	return failed
}
