package etcd

import (
	"context"
	"errors"
	"testing"
	"time"
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
	if err := d.yield(ctx); err != nil { // alone: continues immediately
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

// TestLapse verifies that only the time in one's own turn counts.
func TestLapse(t *testing.T) {
	ctx := context.Background()
	var q turns
	a, b := q.enter(), q.enter()
	var l waitClock
	if l.running() || l.lasted() != 0 {
		t.Error("a lapse runs that was never begun")
	}
	l.begin(a)
	time.Sleep(20 * time.Millisecond)
	mine := l.lasted()
	if mine < 20*time.Millisecond {
		t.Errorf("lasted %s, at least 20ms were held", mine)
	}
	done := make(chan error, 1)
	go func() { done <- a.yield(ctx) }()
	if err := b.wait(ctx); err != nil {
		t.Fatal(err)
	}
	mine = l.lasted()
	time.Sleep(50 * time.Millisecond)
	if now := l.lasted(); now != mine {
		t.Errorf("%s of another turn were counted", now-mine)
	}
	l.begin(a) // already running
	b.leave()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	time.Sleep(10 * time.Millisecond)
	if now := l.lasted(); now < mine+10*time.Millisecond || now > mine+45*time.Millisecond {
		t.Errorf("lasted %s after %s and another 10ms", now, mine)
	}
	l.end()
	if l.running() || l.lasted() != 0 {
		t.Error("a lapse that has ended runs")
	}
	a.leave()
}
