// Package filelock locks files among processes.
package filelock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// poll is how often a lock that another process holds is tried again: a
// blocking flock could not be cancelled.
const poll = 50 * time.Millisecond

// Lock takes the exclusive lock of f, which ends when f is closed, or with the
// process. It waits for as long as another process holds it, and calls waiting,
// where it is not nil, before each further attempt.
func Lock(ctx context.Context, f *os.File, waiting func()) error {
	retry := time.NewTicker(poll)
	defer retry.Stop()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		if waiting != nil {
			waiting()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-retry.C:
		}
	}
}
