package etcd

import (
	"context"
	"errors"
	"testing"
)

func TestTurns(t *testing.T) {
	ctx := context.Background()
	var q turns
	a, b, c := q.enter(), q.enter(), q.enter()
	if err := a.wait(ctx); err != nil {
		t.Fatal(err)
	}
	order := make(chan string, 3)
	done := make(chan error, 1)
	go func() { // a lets the others go first
		err := a.yield(ctx)
		order <- "a"
		a.leave()
		done <- err
	}()
	if err := b.wait(ctx); err != nil {
		t.Fatal(err)
	}
	if n, _ := b.others(); n > 2 {
		t.Errorf("%d wait", n)
	}
	order <- "b"
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if err := c.wait(cancelled); !errors.Is(err, context.Canceled) {
		t.Errorf("wait with a cancelled context = %v", err)
	}
	c.leave() // never held it
	b.leave()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if first, second := <-order, <-order; first != "b" || second != "a" {
		t.Errorf("order %s, %s", first, second)
	}
	d := q.enter()
	if err := d.wait(ctx); err != nil {
		t.Fatal(err)
	}
	if err := d.yield(ctx); err != nil { // alone: at once again
		t.Fatal(err)
	}
	d.leave()
	e := q.enter()
	e.leave() // held, but never waited for
	f := q.enter()
	if err := f.wait(ctx); err != nil {
		t.Fatal(err)
	}
	f.leave()
}
