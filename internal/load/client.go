package load

import (
	"context"
	"fmt"
	"time"
)

// client reads and writes ConfigMaps in turn.
type client struct {
	name   string
	rate   int
	api    api
	via    *link
	ledger *ledger
	late   time.Duration // how far behind the clock it was at worst; read when work has ended
}

// work sends until ctx ends. What is under way then may still be answered.
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
	known, ok := c.ledger.newest()
	if isRead(n) && ok {
		c.ledger.read(c.api.get(ctx, c.via, known))
		return
	}
	name := fmt.Sprintf("%s-%s-%d", c.name, c.api.run, n)
	c.ledger.wrote(name, c.api.create(ctx, c.via, name))
}

// fail is a request that could not be sent.
func (c *client) fail(n int, err error) {
	if isRead(n) {
		c.ledger.read(err)
	} else {
		c.ledger.wrote("", err)
	}
}

// isRead: every second request is a read, of what was written last.
func isRead(n int) bool { return n%2 == 1 }
