package host

import (
	"context"
	"errors"
	"fmt"
)

// Require changes the set of machines of which a majority must be held, and checks it.
func (l *Leases) Require(quorum []string) error {
	l.mu.Lock()
	l.options.Quorum = quorum
	l.mu.Unlock()
	return l.Check()
}

// requireEnough returns an error if too few machines are held. A machine that cannot be
// reached, or that refuses the login, is not held.
func (l *Leases) requireEnough(ctx context.Context, machines []LeaseTaker, failures []error) error {
	if err := ctx.Err(); err != nil {
		return errors.Join(append([]error{err}, failures...)...)
	}
	missing := errors.Join(failures...)
	if other := (*HeldError)(nil); errors.As(missing, &other) {
		return missing
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.options.All && missing != nil || !l.options.Optional && len(machines) > 0 && len(l.held) == 0 {
		return missing
	}
	return l.majority(missing)
}

// majority returns an error if less than a majority of the quorum is held. A machine with two addresses counts once.
// The caller holds the mutex.
func (l *Leases) majority(cause error) error {
	machines := map[*Lease]bool{}
	for _, address := range l.options.Quorum {
		if lease, ok := l.held[address]; ok && lease.Held() {
			machines[lease.Lease] = true
		}
	}
	have := len(machines)
	if need := len(l.options.Quorum)/2 + 1; len(l.options.Quorum) > 0 && have < need {
		return fmt.Errorf("%s: %d of %d machines must be reached to keep other processes from changing the same, and %d "+
			"are: %w",
			l.options.What, need, len(l.options.Quorum), have, orUnreachable(cause))
	}
	return nil
}

func orUnreachable(err error) error {
	if err == nil {
		return ErrUnreachable
	}
	return err
}
