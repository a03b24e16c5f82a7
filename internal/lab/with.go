package lab

import (
	"context"
	"errors"
	"fmt"
)

// With makes the lab of cfg from nothing (see New), moves the running program into its network (see
// Enter), calls fn and destroys the lab. The lab is destroyed whatever fails:
// making it, entering it, or fn. Everything that needs another network must be
// done before.
func With(ctx context.Context, cfg Config, fn func(*Lab) error) (err error) {
	l, destroy, err := New(ctx, cfg)
	defer func() { err = errors.Join(err, destroy()) }()
	if err != nil {
		return fmt.Errorf("make lab machines: %w", err)
	}
	if err := Enter(l); err != nil {
		return err
	}
	return fn(l)
}
