package load

import (
	"context"
	"errors"
	"sync"
	"time"
)

// errNotSent is a request for which there was no room: as many as can be due
// within a request's deadline are under way already.
var errNotSent = errors.New("not sent: too many requests are unanswered")

// pace starts request number 0, 1, ... at rate per second by the clock, whatever
// becomes of those before: a slow answer must not slow the sender, or it would
// hide what it measures. One that is late, because this computer was busy, is
// sent at once; late is the most that any was. When ctx ends, pace waits for
// what is under way.
func pace(ctx context.Context, rate int, send func(n int), skip func(n int)) (late time.Duration) {
	interval := time.Second / time.Duration(rate)
	room := make(chan struct{}, rate+int(requestTimeout/interval))
	var underway sync.WaitGroup
	defer underway.Wait()
	begun := time.Now()
	for n := 0; ; n++ {
		due := begun.Add(time.Duration(n) * interval)
		if pause(ctx, time.Until(due)) != nil {
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
