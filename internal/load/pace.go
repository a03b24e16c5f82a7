package load

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// askInterval is the pause between attempts that are not measured.
	askInterval = 100 * time.Millisecond
	// attemptTimeout bounds one of them. Ten minutes of writes are listed in a
	// few seconds.
	attemptTimeout = 20 * time.Second
)

// errNotSent is a request that never left: too many before it were unanswered.
var errNotSent = errors.New("not sent: too many requests are unanswered")

// pace starts request number 0, 1, ... at rate per second by the clock, whatever
// becomes of those before: a slow answer must not slow the sender, or it would
// hide what it measures. One that is late, because this computer was busy, is
// sent at once; late is the most that any was. When ctx ends, pace waits for
// what is under way.
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

// roomFor is twice what falls due while one request waits in vain: it is never
// used up by a server's silence, only by a computer that has no time for us.
func roomFor(interval time.Duration) int { return 2 * int(requestTimeout/interval) }

// Sleep waits for d, or less when ctx ends first.
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

// persist repeats act, which is not measured, until it succeeds or ctx ends.
func persist(ctx context.Context, act func(context.Context) error) error {
	var last error
	stopped := wait.PollUntilContextCancel(ctx, askInterval, true, func(ctx context.Context) (bool, error) {
		attempt, cancel := context.WithTimeout(ctx, attemptTimeout)
		defer cancel()
		last = act(attempt)
		return last == nil, nil
	})
	if stopped != nil {
		return errors.Join(last, stopped)
	}
	return nil
}
