package soak

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// cleanupTimeout is how long commands of the killed provider may continue on a machine. A
// command notices only when it reads or writes that the other end is gone, and then cleans up.
const cleanupTimeout = 10 * time.Second

// converged returns the differences from the state after an undisturbed operation, or nil.
func (s *sweep) converged(ctx context.Context, o operation) error {
	if o.machines > 0 && s.stable != nil {
		if err := s.stable(ctx, s.machines(o.machines)); err != nil {
			return err
		}
	}
	text, changes, err := s.work.Plan(ctx, append(o.repeatedArguments(), "-out=converged.tfplan")...)
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
	if o.machines == 0 && s.vacated != nil {
		if err := s.vacated(ctx); err != nil {
			return err
		}
	}
	if o.check != nil {
		if err := o.check(ctx); err != nil {
			return err
		}
	}
	return s.all().clean(ctx, o.machines, s.bare)
}

// clean waits until nothing is left over on the first n machines, and until the others are bare
// except for archives. It removes the archives to save disk space.
func (f fleet) clean(ctx context.Context, n int, bare map[string][]string) error {
	if _, err := f.each(ctx, "rm -rf /var/lib/etcd-archive"); err != nil {
		return err
	}
	return eventually(ctx, cleanupTimeout, 300*time.Millisecond, func(ctx context.Context) error {
		left, err := f[:n].leftovers(ctx)
		if err != nil {
			return err
		}
		traces, err := f[n:].differences(ctx, bare)
		if err != nil {
			return err
		}
		if left = append(left, traces...); len(left) > 0 {
			return errors.New(strings.Join(left, "\n"))
		}
		return nil
	})
}
