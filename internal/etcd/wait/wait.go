package wait

import (
	"context"
	"time"
)

// Until polls f until it reports done, fails, or limit is over; in the last case it
// returns false. The error is f's, or that ctx ended.
func Until(ctx context.Context, every, limit time.Duration, f func() (bool, error)) (bool, error) {
	end := time.Now().Add(limit)
	for {
		done, err := f()
		if done || err != nil {
			return done, err
		}
		if time.Now().Add(every).After(end) {
			return false, ctx.Err()
		}
		if err := Pause(ctx, every); err != nil {
			return false, err
		}
	}
}

// Pause waits for d, or returns early with ctx's error.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
