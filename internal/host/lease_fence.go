package host

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"al.essio.dev/pkg/shellescape"
)

// fence returns the check at the beginning of a script, which makes the script do nothing once
// another process has taken the lease.
func (l *Lease) fence() string {
	return fmt.Sprintf("[ \"$(head -n 1 /run/kube/leases/%[1]s 2>/dev/null)\" = %[2]s ] || { echo %[3]s >&2; exit "+
		"%[4]d; }\n",
		shellescape.Quote(l.name), shellescape.Quote(l.token),
		shellescape.Quote("the lease "+l.name+" is no longer held by this process"), leaseLostCode)
}

// Check returns ErrLeaseLost if the leases no longer exclude other processes.
func (l *Leases) Check() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	anyHeld := false
	for address, lease := range l.held {
		anyHeld = anyHeld || lease.Held()
		if l.options.All && !lease.Held() {
			return fmt.Errorf("%s: %w on %s", l.options.What, ErrLeaseLost, address)
		}
	}
	if !anyHeld {
		return fmt.Errorf("%s: %w on every machine", l.options.What, ErrLeaseLost)
	}
	return l.majority(ErrLeaseLost)
}

type leasesKey struct{}

// Context returns a context whose changes (Run, Apply, Install) are checked on the machine
// against these leases: a script does nothing once another process has taken over. Leases that
// ctx already contains remain in effect.
func (l *Leases) Context(ctx context.Context) context.Context {
	inForce, _ := ctx.Value(leasesKey{}).([]*Leases)
	return context.WithValue(ctx, leasesKey{}, append(slices.Clone(inForce), l))
}

// LeasesOn returns the leases that ctx contains for the machine at an address, see Context. It
// fails with ErrLeaseLost if one of them was lost.
func LeasesOn(ctx context.Context, address string) ([]*Lease, error) {
	inForce, _ := ctx.Value(leasesKey{}).([]*Leases)
	var all []*Lease
	for _, l := range inForce {
		if err := l.confirm(ctx, address); err != nil {
			return nil, err
		}
		l.mu.Lock()
		lease, ok := l.held[address]
		l.mu.Unlock()
		if ok {
			all = append(all, lease.Lease)
		}
	}
	return all, nil
}

// confirm returns an error if the leases do not allow a change on the machine at an address. It restores its lease, and
// those of the other machines if the change needs them: they may have been lost with the same connection.
func (l *Leases) confirm(ctx context.Context, address string) error {
	if err := l.restore(ctx, address); err != nil {
		return fmt.Errorf("lease on %s: %w", address, err)
	}
	if l.Check() == nil {
		return nil
	}
	if err := l.Restore(ctx); err != nil {
		return err
	}
	return l.Check()
}

// fenced returns script preceded by the checks of leases.
func fenced(leases []*Lease, script string) string {
	var b strings.Builder
	for _, lease := range leases {
		b.WriteString(lease.fence())
	}
	return b.String() + script
}

// killedWith reports whether a command under these leases that was killed was ended because another process has taken
// one of them.
func killedWith(leases []*Lease, failed *ExitError) bool {
	if failed.Code != killedCode {
		return false
	}
	limit, again := time.After(leaseReleaseTimeout), time.NewTicker(leaseReleaseTimeout/100)
	defer again.Stop()
	for {
		if slices.ContainsFunc(leases, func(l *Lease) bool { return !l.Held() }) {
			return true
		}
		select {
		case <-again.C:
		case <-limit:
			return false
		}
	}
}
