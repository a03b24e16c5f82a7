package host

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Pool holds one SSH connection per machine, made on first use, shared by
// every caller and made again when lost.
type Pool struct {
	settings settings
	bastion  *machine // nil without a bastion
	digests  digestCache
	leases   sync.Map // address and name → the *Lease that was taken last

	mu       sync.Mutex
	machines map[string]*machine // by cluster address
	closed   bool
}

// machine holds the connection to one machine.
type machine struct {
	address string
	dial    func(context.Context) (*connection, error)
	install chan struct{} // held by the Install under way: one at a time per machine

	mu         sync.Mutex
	current    *connection // may be lost
	dialing    *dialing    // nil when none is under way
	unanswered unansweredDial
}

// unansweredDial is the last dial that timed out; zero: none did. Many callers dial
// a dead machine one after the other (endpoint, member, replica, each balancer
// call): the first waits for the timeout, and for half of that time the others fail
// at once.
type unansweredDial struct {
	err   error
	until time.Time
}

// dialing is one attempt that any number of callers wait for.
type dialing struct {
	done chan struct{}
	conn *connection
	err  error
}

var errPoolClosed = fmt.Errorf("%w: the connection pool is closed", ErrUnreachable)

// NewPool checks config without dialling; a setting that cannot work is a
// *ConfigError.
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

// Host returns the machine at t. It does no I/O.
func (p *Pool) Host(t Target) *Host { return &Host{pool: p, target: t} }

// Close ends every connection. What is still running fails with ErrUnreachable.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.closed = true
	var all []*machine
	for _, m := range p.machines {
		all = append(all, m)
	}
	p.mu.Unlock()
	if p.bastion != nil {
		all = append(all, p.bastion) // last: the others run through it
	}
	var errs []error
	for _, m := range all {
		errs = append(errs, m.close())
	}
	return errors.Join(errs...)
}

// machine returns the holder of the connection to address.
func (p *Pool) machine(address string) (*machine, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errPoolClosed
	}
	m, ok := p.machines[address]
	if !ok {
		m = &machine{address: address, install: make(chan struct{}, 1)}
		m.dial = func(ctx context.Context) (*connection, error) { return p.dialMachine(ctx, address) }
		p.machines[address] = m
	}
	return m, nil
}

func (p *Pool) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// connect returns the live connection, made by exactly one dial however many
// callers ask. The dial does not end with the caller that began it: others may
// be waiting, and it has a time limit of its own.
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
		return nil, ctx.Err()
	}
}

func (p *Pool) runDial(m *machine, attempt *dialing) {
	ctx, cancel := context.WithTimeout(context.Background(), p.settings.connectTimeout)
	defer cancel()
	conn, err := m.dial(ctx)

	m.mu.Lock()
	switch {
	case err == nil:
		m.current = conn
	case ctx.Err() != nil:
		m.unanswered = unansweredDial{err: err, until: time.Now().Add(p.settings.connectTimeout / 2)}
	}
	m.dialing = nil
	m.mu.Unlock()
	// Close may have passed by while the dial was under way.
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
