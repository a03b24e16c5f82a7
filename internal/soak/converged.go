package soak

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// aftermath is how long what the killed provider had begun on a machine may go
// on there: a command notices only when it reads or writes that nobody is at the
// other end, and then tidies up.
const aftermath = 10 * time.Second

// converged says what is not as it is after an operation that nothing has
// disturbed, or nil.
func (s *sweep) converged(ctx context.Context, o operation) error {
	text, changes, err := s.work.Plan(ctx, o.standing()...)
	if err != nil {
		return err
	}
	if changes {
		return fmt.Errorf("the plan is not empty:\n%s", text)
	}
	if o.machines > 0 {
		if err := s.members(ctx); err != nil {
			return err
		}
	}
	if o.machines > 0 && s.more != nil {
		if err := s.more(ctx, s.machines(o.machines)); err != nil {
			return err
		}
	}
	if err := s.clean(ctx, o.machines); err != nil {
		return err
	}
	// A member's data is archived each time: disks are not that large.
	_, err = s.all().each(ctx, "rm -rf /var/lib/etcd-archive")
	return err
}

// clean waits until nothing is left over on the first n machines, and nothing at
// all on the others.
func (s *sweep) clean(ctx context.Context, n int) error {
	all := s.all()
	for end := time.Now().Add(aftermath); ; {
		left, err := all[:n].leftovers(ctx)
		if err != nil {
			return err
		}
		traces, err := all[n:].traces(ctx, s.bare)
		if err != nil {
			return err
		}
		if left = append(left, traces...); len(left) == 0 {
			return nil
		}
		if time.Now().After(end) {
			return errors.New(strings.Join(left, "\n"))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(300 * time.Millisecond):
		}
	}
}
