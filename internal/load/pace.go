package load

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// retryInterval is the pause between attempts that are not measured.
	retryInterval = 100 * time.Millisecond
	// attemptTimeout limits one such attempt. Listing the writes of ten minutes takes a few
	// seconds.
	attemptTimeout = 20 * time.Second
)

// errNotSent means that a request was not sent because too many earlier ones were unanswered.
var errNotSent = errors.New("not sent: too many requests are unanswered")

// pace starts request number 0, 1, ... at rate per second by the clock, independent of earlier
// requests: a slow answer must not slow the sender, or it would hide what is measured. A
// request that is late, because this computer was busy, is sent immediately; late is the
// maximum delay. When ctx ends, pace waits for the requests in flight.
func pace(ctx context.Context, rate int, send func(n int), skip func(n int)) (late time.Duration) {
	interval := time.Second / time.Duration(rate)
	room := make(chan struct{}, roomFor(interval))
	var underway sync.WaitGroup
	defer underway.Wait()
	begun := time.Now()
	for n := 0; ; n++ {
		due := begun.Add(time.Duration(n) * interval)
		if Sleep(ctx, time.Until(due)) != nil {
			return late
		}
		late = max(late, time.Since(due))
		select {
		case room <- struct{}{}:
			underway.Go(func() {
				defer func() { <-room }()
				send(n)
			})
		default:
			skip(n)
		}
	}
}

// roomFor returns twice the number of requests that are due before one times out. A server that
// does not answer never uses it up, only an overloaded computer does.
func roomFor(interval time.Duration) int { return 2 * int(requestTimeout/interval) }

// Sleep waits for d, or until ctx ends.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// retry repeats act, which is not measured, until it succeeds or ctx ends.
func retry(ctx context.Context, act func(context.Context) error) error {
	var last error
	stopped := wait.PollUntilContextCancel(ctx, retryInterval, true, func(ctx context.Context) (bool, error) {
		attempt, cancel := context.WithTimeout(ctx, attemptTimeout)
		defer cancel()
		err := act(attempt)
		if last == nil || ctx.Err() == nil { // the earlier error is more useful than the end of ctx
			last = err
		}
		return err == nil, nil
	})
	if stopped != nil {
		return errors.Join(last, stopped)
	}
	return nil
}
