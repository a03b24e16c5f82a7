package build

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// lock takes an exclusive lock on a file, which the kernel gives back even when
// the process is killed. It waits for as long as another process holds it.
func lock(ctx context.Context, name string, show *progress) (unlock func(), err error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	retry := time.NewTicker(200 * time.Millisecond)
	defer retry.Stop()
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			file.Close()
			return nil, fmt.Errorf("lock %s: %w", name, err)
		}
		show.step("waiting for another process to build it")
		select {
		case <-ctx.Done():
			file.Close()
			return nil, ctx.Err()
		case <-retry.C:
		}
	}
}
