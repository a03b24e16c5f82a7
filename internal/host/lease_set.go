package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// leaseRetry is the interval between attempts to take a lease that another process holds.
const leaseRetry = 500 * time.Millisecond

// leaseTimeout limits the time of one machine's answer, not including the time to connect to
// it.
const leaseTimeout = 20 * time.Second

// errLeaseTimeout means that no lease is held on a machine because it has not answered. If the machine has accepted a
// connection, it comes with ErrNoAnswer.
var errLeaseTimeout = fmt.Errorf("%w: no answer within %s", ErrUnreachable, leaseTimeout)

// LeaseTaker is a machine on which a lease can be taken: a *Host, or a substitute in a test.
type LeaseTaker interface {
	Address() string
	TakeLease(ctx context.Context, name, holder string, previous *Lease) (*Lease, error)
}

// LeaseOptions are the options of TakeLeases.
type LeaseOptions struct {
	What string // what is going to be changed, for messages: "etcd of cluster prod"
	// Quorum contains the addresses of which a majority must be held. Unreachable machines
	// count as not held. If it is empty, one machine is enough.
	Quorum []string
	// All requires every machine to be held.
	All bool
	// Optional lets Take succeed if no machine can be reached at all. Check then fails, and so
	// does every change.
	Optional bool
}

// Leases is one lease on several machines, held by one process. No other process that takes the
// same lease can make changes at the same time.
type Leases struct {
	name string

	restoring sync.Mutex // serializes restore, which would meet its own new lease otherwise

	mu      sync.Mutex
	options LeaseOptions
	held    map[string]heldLease // by address; a machine with two addresses has its lease under both
}

type heldLease struct {
	*Lease
	machine LeaseTaker
}

// NewLeases returns leases of that name that are not held on any machine yet.
func NewLeases(name string) *Leases { return &Leases{name: name, held: map[string]heldLease{}} }

// TakeLeases combines NewLeases and Take.
func TakeLeases(ctx context.Context, machines []LeaseTaker, name string, o LeaseOptions) (*Leases, error) {
	l := NewLeases(name)
	if err := l.Take(ctx, machines, o); err != nil {
		return nil, err
	}
	return l, nil
}

// Take takes the lease on every reachable machine where it is not held yet, including machines
// where it was lost. If another process holds it, Take waits until ctx ends. Processes wait in
// the order of the addresses, so that two processes with overlapping sets cannot deadlock. Take
// fails with ErrUnreachable if fewer machines answer than the options require. A Take that fails keeps the leases that
// were held before, for other operations of this process, unless another process holds one.
func (l *Leases) Take(ctx context.Context, machines []LeaseTaker, o LeaseOptions) error {
	machines = slices.Clone(machines)
	slices.SortFunc(machines, func(a, b LeaseTaker) int { return strings.Compare(a.Address(), b.Address()) })
	machines = slices.CompactFunc(machines, func(a, b LeaseTaker) bool { return a.Address() == b.Address() })
	l.mu.Lock()
	l.options = o
	l.mu.Unlock()
	if err := l.Restore(ctx); err != nil {
		l.Release() // another process has made changes: the next holder must observe everything again
	}
	before := l.Addresses()
	err := l.takeAtOnce(ctx, machines)
	var other *HeldError
	if errors.As(err, &other) {
		l.Release() // a waiting process must not hold leases that come later in the order
		before = nil
		err = l.takeInOrder(ctx, machines)
	}
	if err != nil {
		l.releaseAllBut(before)
	}
	return err
}

// takeAtOnce takes all leases in parallel, for the usual case without contention.
func (l *Leases) takeAtOnce(ctx context.Context, machines []LeaseTaker) error {
	var group sync.WaitGroup
	failures := make([]error, len(machines))
	for i, machine := range machines {
		if l.Covers(machine.Address()) {
			continue
		}
		group.Go(func() { failures[i] = l.take(ctx, machine) })
	}
	group.Wait()
	return l.requireEnough(ctx, machines, failures)
}

// takeInOrder waits for each machine's lease while it holds the leases before it.
func (l *Leases) takeInOrder(ctx context.Context, machines []LeaseTaker) error {
	failures := make([]error, len(machines))
	for i, machine := range machines {
		failures[i] = l.waitForRelease(ctx, machine)
	}
	return l.requireEnough(ctx, machines, failures)
}

// take takes the lease of one machine. If that is a machine that is held already under another address, its lease is
// kept under this one too.
func (l *Leases) take(ctx context.Context, machine LeaseTaker) error {
	lease, err := takeWithTimeout(ctx, machine, l.name, nil)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.held[machine.Address()] = heldLease{lease, machine}
		return nil
	}
	if own, ok := l.own(err); ok {
		l.held[machine.Address()] = own
		return nil
	}
	return err
}

// own returns the lease of this process that err names as the one that is held. The caller holds the mutex.
func (l *Leases) own(err error) (heldLease, bool) {
	var held *HeldError
	if errors.As(err, &held) && held.Token != "" {
		for _, own := range l.held {
			if own.token == held.Token && own.Held() {
				return own, true
			}
		}
	}
	return heldLease{}, false
}

// takeWithTimeout takes the lease of one machine within leaseTimeout.
func takeWithTimeout(ctx context.Context, machine LeaseTaker, name string, previous *Lease) (*Lease, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, leaseTimeout, errLeaseTimeout)
	defer cancel()
	lease, err := machine.TakeLease(ctx, name, describeHolder(), previous)
	if err == nil || !errors.Is(context.Cause(ctx), errLeaseTimeout) {
		return lease, err
	}
	if errors.Is(err, ErrNoAnswer) {
		return nil, fmt.Errorf("%w: connected to %s, and %w", errLeaseTimeout, machine.Address(), ErrNoAnswer)
	}
	return nil, errLeaseTimeout
}

// Restore takes leases again that were lost with a connection. It fails with ErrLeaseLost if
// another process has held one since. A machine that cannot be reached stays lost.
func (l *Leases) Restore(ctx context.Context) error {
	l.mu.Lock()
	held := maps.Clone(l.held)
	l.mu.Unlock()
	for _, address := range slices.Sorted(maps.Keys(held)) {
		if err := l.restore(ctx, address); errors.Is(err, ErrLeaseLost) {
			return err
		}
	}
	return nil
}

// restore takes the lease of one machine again if it was lost.
func (l *Leases) restore(ctx context.Context, address string) error {
	l.restoring.Lock()
	defer l.restoring.Unlock()
	l.mu.Lock()
	lost, ok := l.held[address]
	l.mu.Unlock()
	if !ok || lost.Held() {
		return nil
	}
	lease, err := takeWithTimeout(ctx, lost.machine, l.name, lost.Lease)
	if other := (*HeldError)(nil); errors.As(err, &other) {
		return fmt.Errorf("%s: %w: %w", l.options.What, ErrLeaseLost, err)
	}
	if err != nil {
		return err
	}
	if !l.replace(lost.Lease, heldLease{lease, lost.machine}) {
		lease.release() // meanwhile, the leases were released
	}
	return nil
}

// replace puts a lease in the place of one that was lost, under each address of its machine. It reports whether the
// lost one was still there.
func (l *Leases) replace(lost *Lease, by heldLease) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	replaced := false
	for address, held := range l.held {
		if held.Lease == lost {
			l.held[address], replaced = by, true
		}
	}
	return replaced
}

// waitForRelease waits for the lease of one machine.
func (l *Leases) waitForRelease(ctx context.Context, machine LeaseTaker) error {
	reported := ""
	for {
		err := l.take(ctx, machine)
		var other *HeldError
		if !errors.As(err, &other) {
			return err
		}
		if other.Holder != reported {
			reported = other.Holder
			problem.Progress(ctx, "waiting: %s is being changed by %s (lease on %s)", l.options.What, other.Holder,
				other.Address)
		}
		select {
		case <-time.After(leaseRetry):
		case <-ctx.Done():
			return fmt.Errorf("%w while waiting for another process: %w", ctx.Err(), err)
		}
	}
}

// describeHolder describes this process for others.
func describeHolder() string {
	name, err := os.Hostname()
	if err != nil {
		name = "an unnamed computer"
	}
	return fmt.Sprintf("process %d on %s since %s", os.Getpid(), name, time.Now().UTC().Format(time.RFC3339))
}

// Addresses returns the machines on which the lease was taken, sorted.
func (l *Leases) Addresses() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.held))
}

// Covers reports whether the lease is held on the machine at an address.
func (l *Leases) Covers(address string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	lease, ok := l.held[address]
	return ok && lease.Held()
}

// Release releases the leases. It may be called more than once.
func (l *Leases) Release() { l.releaseAllBut(nil) }

// releaseAllBut releases the leases except those of some addresses.
func (l *Leases) releaseAllBut(kept []string) {
	l.mu.Lock()
	remain, released := map[string]heldLease{}, map[*Lease]bool{}
	for address, lease := range l.held {
		if slices.Contains(kept, address) {
			remain[address] = lease
		} else {
			released[lease.Lease] = true
		}
	}
	for _, lease := range remain {
		delete(released, lease.Lease) // a machine with two addresses
	}
	l.held = remain
	l.mu.Unlock()
	var group sync.WaitGroup
	for lease := range released {
		group.Go(lease.release)
	}
	group.Wait()
}
