package wait

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestTurns(t *testing.T) {
	ctx := context.Background()
	var q Queue
	a, b, c := q.Enter(), q.Enter(), q.Enter()
	if err := a.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	order := make(chan string, 3)
	done := make(chan error, 1)
	go func() { // a lets the others go first
		err := a.Yield(ctx)
		order <- "a"
		a.Leave()
		done <- err
	}()
	if err := b.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	if n, _ := b.Others(); n > 2 {
		t.Errorf("%d wait", n)
	}
	order <- "b"
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if err := c.Wait(cancelled); !errors.Is(err, context.Canceled) {
		t.Errorf("wait with a cancelled context = %v", err)
	}
	c.Leave() // never held it
	b.Leave()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if first, second := <-order, <-order; first != "b" || second != "a" {
		t.Errorf("order %s, %s", first, second)
	}
	d := q.Enter()
	if err := d.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	if err := d.Yield(ctx); err != nil { // alone: continues immediately
		t.Fatal(err)
	}
	d.Leave()
	e := q.Enter()
	e.Leave() // held, but never waited for
	f := q.Enter()
	if err := f.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	f.Leave()
}

// TestLapse verifies that only the time in one's own turn counts.
func TestLapse(t *testing.T) {
	ctx := context.Background()
	var q Queue
	a, b := q.Enter(), q.Enter()
	var l Clock
	if l.Running() || l.Lasted() != 0 {
		t.Error("a lapse runs that was never begun")
	}
	l.Begin(a)
	time.Sleep(20 * time.Millisecond)
	mine := l.Lasted()
	if mine < 20*time.Millisecond {
		t.Errorf("lasted %s, at least 20ms were held", mine)
	}
	done := make(chan error, 1)
	go func() { done <- a.Yield(ctx) }()
	if err := b.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	mine = l.Lasted()
	time.Sleep(50 * time.Millisecond)
	if now := l.Lasted(); now != mine {
		t.Errorf("%s of another turn were counted", now-mine)
	}
	l.Begin(a) // already running
	b.Leave()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	time.Sleep(10 * time.Millisecond)
	if now := l.Lasted(); now < mine+10*time.Millisecond || now > mine+45*time.Millisecond {
		t.Errorf("lasted %s after %s and another 10ms", now, mine)
	}
	began, lasted := a.Held(), l.Lasted()
	time.Sleep(20 * time.Millisecond)
	l.Exclude(began)
	if now := l.Lasted(); now > lasted+10*time.Millisecond {
		t.Errorf("%s of something else were counted", now-lasted)
	}
	l.End()
	if l.Exclude(0); l.Running() || l.Lasted() != 0 {
		t.Error("a lapse that has ended runs")
	}
	a.Leave()
}
