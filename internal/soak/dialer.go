package soak

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"
)

const (
	dialEvery   = 20 * time.Millisecond
	dialTimeout = 250 * time.Millisecond // shorter than the kernel's first repetition of a SYN
)

// dial is one attempt to connect.
type dial struct {
	begun time.Time
	took  time.Duration
	err   error
}

// dialer connects to an address, at a fixed rate and without a request, so that only the address itself
// is measured.
type dialer struct {
	mu    sync.Mutex
	dials []dial
	all   sync.WaitGroup
	end   context.CancelFunc
}

func startDialer(ctx context.Context, address string) *dialer {
	ctx, cancel := context.WithCancel(ctx)
	d := &dialer{end: cancel}
	d.all.Go(func() {
		tick := time.NewTicker(dialEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case begun := <-tick.C:
				d.all.Go(func() { d.connect(ctx, address, begun) })
			}
		}
	})
	return d
}

func (d *dialer) connect(ctx context.Context, address string, begun time.Time) {
	connection, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", address)
	if err == nil {
		_ = connection.Close()
	} else if ctx.Err() != nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dials = append(d.dials, dial{begun, time.Since(begun), err})
}

// stop ends the dialer, and returns its attempts in the order in which they began.
func (d *dialer) stop() []dial {
	d.end()
	d.all.Wait()
	slices.SortFunc(d.dials, func(a, b dial) int { return a.begun.Compare(b.begun) })
	return d.dials
}

func (d dial) ended() time.Time { return d.begun.Add(d.took) }

// longestOutage returns the longest time from the last success before a failure, or from the first attempt, to the next
// success, or to the end of the last attempt. Without a failure, it is 0: a late attempt is no outage.
func longestOutage(dials []dial) time.Duration {
	if len(dials) == 0 {
		return 0
	}
	var longest time.Duration
	last, failing := dials[0].begun, false
	for _, d := range dials {
		switch {
		case d.err != nil:
			failing = true
		case failing:
			longest = max(longest, d.ended().Sub(last))
			fallthrough
		default:
			failing, last = false, d.begun
		}
	}
	if failing {
		longest = max(longest, dials[len(dials)-1].ended().Sub(last))
	}
	return longest
}

// refusals counts the attempts that a machine with the address refused.
func refusals(dials []dial) int {
	n := 0
	for _, d := range dials {
		if errors.Is(d.err, syscall.ECONNREFUSED) {
			n++
		}
	}
	return n
}
