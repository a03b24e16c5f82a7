package host

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Pool holds one SSH connection per machine. It is opened on first use, shared by all callers,
// and reopened when lost.
type Pool struct {
	settings settings
	bastion  *machine // nil without a bastion
	digests  digestCache
	leases   sync.Map // address and name → the last *Lease that was taken

	mu       sync.Mutex
	machines map[string]*machine // by cluster address
	closed   bool
}

// machine holds the connection to one machine.
type machine struct {
	address string
	dial    func(context.Context, *dialing) (*connection, error)
	install chan struct{} // held by the Install in progress: one at a time per machine

	mu         sync.Mutex
	current    *connection // may be lost
	dialing    *dialing    // nil if none is in progress
	unanswered unansweredDial
}

// unansweredDial is the last dial that timed out; zero if none did. Many callers dial a dead
// machine one after the other (endpoint, member, replica, each load balancer call). The first
// one waits for the timeout; for half of that time the others fail immediately.
type unansweredDial struct {
	err   error
	until time.Time
}

// dialing is one dial that any number of callers wait for.
type dialing struct {
	loggedIn atomic.Bool // the machine has accepted the login: it answers, and may hang
	done     chan struct{}
	conn     *connection
	err      error
}

var errPoolClosed = fmt.Errorf("%w: the connection pool is closed", ErrUnreachable)

// NewPool validates config without dialling; an invalid setting is a *ConfigError.
func NewPool(config Config) (*Pool, error) {
	s, err := resolve(config)
	if err != nil {
		return nil, err
	}
	p := &Pool{settings: s, machines: make(map[string]*machine)}
	if s.bastion != nil {
		p.bastion = &machine{address: s.bastion.name, dial: p.dialBastion}
	}
	return p, nil
}

// Host returns the machine at t. It performs no I/O.
func (p *Pool) Host(t Target) *Host { return &Host{pool: p, target: t} }

// Close ends every connection. Running calls fail with ErrUnreachable.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.closed = true
	var all []*machine
	for _, m := range p.machines {
		all = append(all, m)
	}
	p.mu.Unlock()
	if p.bastion != nil {
		all = append(all, p.bastion) // last: the other connections run through it
	}
	var errs []error
	for _, m := range all {
		errs = append(errs, m.close())
	}
	return errors.Join(errs...)
}

// machine returns the entry of the machine at address.
func (p *Pool) machine(address string) (*machine, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errPoolClosed
	}
	m, ok := p.machines[address]
	if !ok {
		m = &machine{address: address, install: make(chan struct{}, 1)}
		m.dial = func(ctx context.Context, attempt *dialing) (*connection, error) {
			return p.dialMachine(ctx, address, attempt)
		}
		p.machines[address] = m
	}
	return m, nil
}

func (p *Pool) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// connect returns the open connection. Concurrent callers share one dial. The dial does not end
// with the caller that started it, because others may be waiting; it has its own timeout.
func (p *Pool) connect(ctx context.Context, m *machine) (*connection, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	if m.current != nil && m.current.alive() {
		defer m.mu.Unlock()
		return m.current, nil
	}
	if time.Now().Before(m.unanswered.until) {
		defer m.mu.Unlock()
		return nil, m.unanswered.err
	}
	attempt := m.dialing
	if attempt == nil {
		attempt = &dialing{done: make(chan struct{})}
		m.dialing = attempt
		go p.runDial(m, attempt)
	}
	m.mu.Unlock()

	select {
	case <-attempt.done:
		return attempt.conn, attempt.err
	case <-ctx.Done():
		if attempt.loggedIn.Load() && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, fmt.Errorf("%w: %w", ErrNoAnswer, ctx.Err())
		}
		return nil, fmt.Errorf("%w: %w", errNotConnected, ctx.Err())
	}
}

func (p *Pool) runDial(m *machine, attempt *dialing) {
	ctx, cancel := context.WithTimeout(context.Background(), p.settings.connectTimeout)
	defer cancel()
	conn, err := m.dial(ctx, attempt)

	m.mu.Lock()
	switch {
	case err == nil:
		m.current = conn
	case ctx.Err() != nil:
		m.unanswered = unansweredDial{err: err, until: time.Now().Add(p.settings.connectTimeout / 2)}
	}
	m.dialing = nil
	m.mu.Unlock()
	// Close may have been called during the dial.
	if err == nil && p.isClosed() {
		_ = conn.drop()
		conn, err = nil, errPoolClosed
	}
	attempt.conn, attempt.err = conn, err
	close(attempt.done)
}

func (m *machine) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.current == nil || !m.current.alive() {
		return nil
	}
	return m.current.drop()
}
