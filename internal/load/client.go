package load

import (
	"context"
	"fmt"
	"time"
)

// client alternates between writing and reading ConfigMaps.
type client struct {
	name   string
	rate   int
	api    api
	via    *link
	ledger *ledger
	late   time.Duration // its maximum delay; read when work has ended
}

// work sends until ctx ends. Requests in flight may still be answered.
func (c *client) work(ctx context.Context) {
	answers := context.WithoutCancel(ctx)
	c.late = pace(ctx, c.rate,
		func(n int) { c.request(answers, n) },
		func(n int) { c.fail(n, errNotSent) })
}

func (c *client) request(ctx context.Context, n int) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if err := c.via.enter(ctx); err != nil {
		c.fail(n, err)
		return
	}
	defer c.via.leave()
	ctx, tries := countAttempts(ctx)
	known, ok := c.ledger.newest()
	if isRead(n) && ok {
		err := c.api.get(ctx, c.via, known)
		c.ledger.read(tries.outcome(err))
		return
	}
	name := fmt.Sprintf("%s-%s-%d", c.name, c.api.run, n)
	err := c.api.create(ctx, c.via, name)
	c.ledger.wrote(name, tries.outcome(err))
}

// fail records a request that could not be sent.
func (c *client) fail(n int, err error) {
	if isRead(n) {
		c.ledger.read(outcome{err: err})
	} else {
		c.ledger.wrote("", outcome{err: err})
	}
}

// isRead reports whether request n is a read: every second request reads the last written
// ConfigMap.
func isRead(n int) bool { return n%2 == 1 }
