package lab

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

const (
	// reservations holds one directory per lab of New, which the process that uses the lab
	// has locked. It is apart from the lab's own directory, which goes with the lab.
	reservations = "/run/kube-lab"

	// reservationVar tells the program that Enter starts again of its lab: name, process and
	// the descriptor of the lock.
	reservationVar = "KUBE_LAB_RESERVATION"
)

// New makes the lab of cfg from nothing, for this process alone. A lab of that name that
// a killed process left behind is destroyed first: what happened on its machines must not
// decide a test. As long as another process uses the lab, New waits. The caller calls
// destroy, also for a lab that could not be made. In a program that Enter has started
// again, New returns the lab that it made before.
func New(ctx context.Context, cfg Config) (l *Lab, destroy func() error, err error) {
	nothing := func() error { return nil }
	if err := cfg.check(); err != nil {
		return nil, nothing, err
	}
	if cfg.Log == nil {
		cfg.Log = os.Stderr
	}
	reservation := handedOver(cfg.Name)
	again := reservation != nil
	if !again {
		if reservation, err = reserve(ctx, cfg.Name, cfg.Log); err != nil {
			return nil, nothing, err
		}
	}
	destroy = func() error {
		defer reservation.Close()
		defer os.Remove(reservation.Name())
		return Destroy(context.WithoutCancel(ctx), cfg.Name)
	}
	if again {
		l, err = Open(cfg.Name)
	} else if err = Destroy(ctx, cfg.Name); err == nil {
		l, err = Up(ctx, cfg)
	}
	if err != nil {
		return nil, destroy, err
	}
	l.reservation = reservation
	return l, destroy, nil
}

// reserve takes the lock of the lab's user.
func reserve(ctx context.Context, name string, log io.Writer) (*os.File, error) {
	waiting := sync.OnceFunc(func() { fmt.Fprintf(log, "waiting for lab %s: another process uses it\n", name) })
	f, err := openLocked(ctx, filepath.Join(reservations, name), waiting)
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("lab %s is in use by another process: %w", name, err)
	}
	return f, err
}

// handOver keeps the reservation open for the program that replaces this one, and returns
// the environment variable for it.
func (l *Lab) handOver() (string, error) {
	if l.reservation == nil {
		return reservationVar + "=", nil
	}
	own := l.reservation.Fd()
	kept, err := syscall.Dup(int(own)) // without close-on-exec
	if err != nil {
		return "", fmt.Errorf("keep the lab's lock: %w", err)
	}
	return fmt.Sprintf("%s=%s %d %d", reservationVar, l.Name, os.Getpid(), kept), nil
}

// handedOver returns the reservation that this process had before it was replaced, or nil.
func handedOver(name string) *os.File {
	var (
		of      string
		pid, fd int
	)
	text := os.Getenv(reservationVar)
	if _, err := fmt.Sscanf(text, "%s %d %d", &of, &pid, &fd); err != nil || of != name || pid != os.Getpid() {
		return nil
	}
	_ = os.Unsetenv(reservationVar) // once
	syscall.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), filepath.Join(reservations, name))
}
