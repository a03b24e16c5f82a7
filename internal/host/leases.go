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

// leaseRetry is the interval at which a lease that another process holds is asked for again.
const leaseRetry = 500 * time.Millisecond

// leaseTimeout bounds one machine's answer, beside the time for connecting to it.
const leaseTimeout = 20 * time.Second

// LeaseTaker is a machine on which a lease can be taken: a *Host, or what stands
// for one in a test.
type LeaseTaker interface {
	Address() string
	TakeLease(ctx context.Context, name, holder string, previous *Lease) (*Lease, error)
}

// LeaseOptions qualify TakeLeases.
type LeaseOptions struct {
	What string // that is going to be changed, for messages: "etcd of cluster prod"
	// Quorum are the addresses of which a majority must be held, machines that
	// cannot be reached counting as not held. Where it is empty, one machine is
	// enough.
	Quorum []string
	// All requires every machine to be held.
	All bool
	// Optional lets Take succeed where no machine can be reached at all. Check fails
	// then, and so does every change.
	Optional bool
}

// Leases are one lease on several machines, held by one process: between them no
// other process that asks for the same lease can change the same thing.
type Leases struct {
	name string

	mu      sync.Mutex
	options LeaseOptions
	held    map[string]heldLease // by address
}

type heldLease struct {
	*Lease
	machine LeaseTaker
}

// NewLeases returns leases of that name, held on no machine yet.
func NewLeases(name string) *Leases { return &Leases{name: name, held: map[string]heldLease{}} }

// TakeLeases is NewLeases and Take.
func TakeLeases(ctx context.Context, machines []LeaseTaker, name string, o LeaseOptions) (*Leases, error) {
	l := NewLeases(name)
	if err := l.Take(ctx, machines, o); err != nil {
		return nil, err
	}
	return l, nil
}

// Take takes the lease on every machine that can be reached and is not held yet,
// those included that were lost. Where another process holds one, Take waits until
// ctx ends: two processes that ask for overlapping sets wait for each other in the
// order of the addresses, so that neither waits for ever. It fails with
// ErrUnreachable where fewer machines answer than the options ask for, and then
// holds none.
func (l *Leases) Take(ctx context.Context, machines []LeaseTaker, o LeaseOptions) error {
	machines = slices.Clone(machines)
	slices.SortFunc(machines, func(a, b LeaseTaker) int { return strings.Compare(a.Address(), b.Address()) })
	machines = slices.CompactFunc(machines, func(a, b LeaseTaker) bool { return a.Address() == b.Address() })
	l.mu.Lock()
	l.options = o
	l.mu.Unlock()
	if err := l.Restore(ctx); err != nil {
		l.Release() // another process has been at work: whoever takes it looks at everything anew
	}
	err := l.takeAtOnce(ctx, machines)
	var other *HeldError
	if errors.As(err, &other) {
		l.Release() // whoever waits holds nothing that comes later in the order
		err = l.takeInOrder(ctx, machines)
	}
	if err != nil {
		l.Release()
	}
	return err
}

// Require changes of which machines a majority must be held, and checks it.
func (l *Leases) Require(quorum []string) error {
	l.mu.Lock()
	l.options.Quorum = quorum
	l.mu.Unlock()
	return l.Check()
}

// takeAtOnce is for the usual case, in which nobody else asks.
func (l *Leases) takeAtOnce(ctx context.Context, machines []LeaseTaker) error {
	var group sync.WaitGroup
	failures := make([]error, len(machines))
	for i, machine := range machines {
		if l.Covers(machine.Address()) {
			continue
		}
		group.Go(func() {
			lease, err := takeSoon(ctx, machine, l.name, nil)
			if failures[i] = err; err == nil {
				l.keep(machine, lease)
			}
		})
	}
	group.Wait()
	return l.judge(ctx, machines, failures)
}

// takeInOrder waits for each machine's lease while it holds those before it.
func (l *Leases) takeInOrder(ctx context.Context, machines []LeaseTaker) error {
	failures := make([]error, len(machines))
	for i, machine := range machines {
		lease, err := l.await(ctx, machine)
		if failures[i] = err; err == nil {
			l.keep(machine, lease)
		}
	}
	return l.judge(ctx, machines, failures)
}

func (l *Leases) keep(machine LeaseTaker, lease *Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[lease.address] = heldLease{lease, machine}
}

// takeSoon bounds what a machine takes to answer.
func takeSoon(ctx context.Context, machine LeaseTaker, name string, previous *Lease) (*Lease, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, leaseTimeout, fmt.Errorf("%w: no answer within %s", ErrUnreachable, leaseTimeout))
	defer cancel()
	lease, err := machine.TakeLease(ctx, name, holder(), previous)
	if err != nil && errors.Is(context.Cause(ctx), ErrUnreachable) {
		err = context.Cause(ctx)
	}
	return lease, err
}

// Restore takes again what was lost with a connection. It fails with ErrLeaseLost
// where another process has held it since; a machine that cannot be reached stays lost.
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

// restore takes the lease of one machine again where it was lost.
func (l *Leases) restore(ctx context.Context, address string) error {
	l.mu.Lock()
	lost, ok := l.held[address]
	l.mu.Unlock()
	if !ok || lost.Held() {
		return nil
	}
	lease, err := takeSoon(ctx, lost.machine, l.name, lost.Lease)
	if other := (*HeldError)(nil); errors.As(err, &other) {
		return fmt.Errorf("%s: %w: %w", l.options.What, ErrLeaseLost, err)
	}
	if err != nil {
		return err
	}
	l.keep(lost.machine, lease)
	return nil
}

// await waits for the lease of one machine.
func (l *Leases) await(ctx context.Context, machine LeaseTaker) (*Lease, error) {
	told := ""
	for {
		lease, err := takeSoon(ctx, machine, l.name, nil)
		var other *HeldError
		if !errors.As(err, &other) {
			return lease, err
		}
		if other.Holder != told {
			told = other.Holder
			problem.Progress(ctx, "waiting: %s is being changed by %s (lease on %s)", l.options.What, other.Holder, other.Address)
		}
		select {
		case <-time.After(leaseRetry):
		case <-ctx.Done():
			return nil, fmt.Errorf("%w while waiting for another process: %w", ctx.Err(), err)
		}
	}
}

// judge says whether enough machines are held. A machine that cannot be reached, or
// that lets nobody in, is not held.
func (l *Leases) judge(ctx context.Context, machines []LeaseTaker, failures []error) error {
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

// majority is an error where less than a majority of the quorum is held. The
// caller has the lock.
func (l *Leases) majority(cause error) error {
	have := 0
	for _, address := range l.options.Quorum {
		if lease, ok := l.held[address]; ok && lease.Held() {
			have++
		}
	}
	if need := len(l.options.Quorum)/2 + 1; len(l.options.Quorum) > 0 && have < need {
		return fmt.Errorf("%s: %d of %d machines must be reached to keep other processes from changing the same, and %d are: %w",
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

// holder is how this process presents itself to others.
func holder() string {
	name, err := os.Hostname()
	if err != nil {
		name = "an unnamed computer"
	}
	return fmt.Sprintf("process %d on %s since %s", os.Getpid(), name, time.Now().UTC().Format(time.RFC3339))
}

// Check says whether the leases still keep other processes out, or fails with
// ErrLeaseLost.
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

// Addresses are the machines on which the lease was taken, sorted.
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

// Release gives the leases back. It may be repeated.
func (l *Leases) Release() {
	l.mu.Lock()
	held := l.held
	l.held = map[string]heldLease{}
	l.mu.Unlock()
	var group sync.WaitGroup
	for _, lease := range held {
		group.Go(lease.release)
	}
	group.Wait()
}

type leasesKey struct{}

// Context returns a context whose changes (Run, Apply, Install) are checked on the
// machine against these leases: a script does nothing once another process has
// taken over. Leases that ctx has already stay in force beside them.
func (l *Leases) Context(ctx context.Context) context.Context {
	inForce, _ := ctx.Value(leasesKey{}).([]*Leases)
	return context.WithValue(ctx, leasesKey{}, append(slices.Clone(inForce), l))
}

// LeasesOn are the leases that a change on the machine at an address is made
// under, as Context put them into ctx. It fails with ErrLeaseLost where one of
// them was lost.
func LeasesOn(ctx context.Context, address string) ([]*Lease, error) {
	inForce, _ := ctx.Value(leasesKey{}).([]*Leases)
	var all []*Lease
	for _, l := range inForce {
		if err := l.restore(ctx, address); err != nil {
			return nil, fmt.Errorf("lease on %s: %w", address, err)
		}
		if err := l.Check(); err != nil {
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

// fenced is script behind the checks of the leases that ctx holds on the machine.
func fenced(ctx context.Context, address, script string) (string, error) {
	leases, err := LeasesOn(ctx, address)
	var b strings.Builder
	for _, lease := range leases {
		b.WriteString(lease.fence())
	}
	return b.String() + script, err
}
