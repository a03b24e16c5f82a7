package lab

import (
	"context"
	"sync"
	"time"
)

// Interruptions cut an operation off at its remote commands, as a user does who stops an apply.
type Interruptions struct {
	mu     sync.Mutex
	at     int // the ordinal of the command; 0 is none
	seen   int
	cut    string // the summary of the command that was cut off
	cancel context.CancelFunc
}

// Around can be used as host.Config.Around.
func (i *Interruptions) Around(_, summary string) (running, ended func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.seen++
	if i.seen != i.at {
		return func() {}, func() {}
	}
	i.cut = summary
	cancel := i.cancel
	return func() { time.AfterFunc(20*time.Millisecond, cancel) }, func() { cancel() }
}

// At runs an operation, and cuts it off at its remote command with this ordinal, from 1. It returns the summary of
// that command, or "" if the operation has fewer, and the error of the operation.
func (i *Interruptions) At(
	ctx context.Context, ordinal int, run func(ctx context.Context) error,
) (cut string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	i.mu.Lock()
	i.at, i.seen, i.cut, i.cancel = ordinal, 0, "", cancel
	i.mu.Unlock()
	err = run(ctx)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.at = 0
	return i.cut, err
}

// During runs an operation again and again: each time it is cut off at the next remote command, and the last time at
// none. It returns the summaries of the commands, and the error of the last run.
func (i *Interruptions) During(ctx context.Context, run func(ctx context.Context) error) (cuts []string, err error) {
	for {
		cut, err := i.At(ctx, len(cuts)+1, run)
		if cut == "" {
			return cuts, err
		}
		cuts = append(cuts, cut)
	}
}
