package machine

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// Dialer dials an address through machines.
type Dialer func(ctx context.Context, routes map[string]Machine, addr string) (net.Conn, error)

// DialThrough dials addr from its own machine, else from any other reachable machine. The
// others are tried in parallel, so that one dead machine does not use up the time of the
// rest.
func DialThrough(ctx context.Context, routes map[string]Machine, addr string) (net.Conn, error) {
	address, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	own, known := routes[address]
	if known {
		conn, err := own.Dial(ctx, "tcp", addr)
		if err == nil || !lostMachine(err) {
			return conn, err
		}
	}
	results := make(chan dialResult, len(routes))
	tried := 0
	for other, m := range routes {
		if other == address {
			continue
		}
		tried++
		go func() {
			conn, err := m.Dial(ctx, "tcp", addr)
			results <- dialResult{conn, err}
		}()
	}
	errs := []error{fmt.Errorf("reach %s: %w", addr, host.ErrUnreachable)}
	for i := range tried {
		r := <-results
		if r.err == nil {
			go closeRest(results, tried-i-1)
			return r.conn, nil
		}
		errs = append(errs, r.err)
	}
	return nil, errors.Join(errs...)
}

// dialResult is the outcome of one of several dials.
type dialResult struct {
	conn net.Conn
	err  error
}

// closeRest closes the connections that came too late to be used.
func closeRest(results <-chan dialResult, n int) {
	for range n {
		if r := <-results; r.err == nil {
			_ = r.conn.Close() // never used
		}
	}
}

// lostMachine reports whether an error means that there is no SSH connection to the
// machine, rather than that its member refused the connection. It decides only the route
// by which a member is dialled: TLS authenticates who answers there, and a live voter must
// not count as dead because its machine rejects the login. It does not abandon a machine:
// see host.Abandoned.
func lostMachine(err error) bool {
	return errors.Is(err, host.ErrUnreachable) || errors.Is(err, host.ErrHostKey) || errors.Is(err, host.ErrAuth) ||
		errors.Is(err, host.ErrNotRoot)
}

// DialAny dials addr from every machine in parallel: one machine may reach what another
// cannot.
func DialAny(ctx context.Context, routes map[string]Machine, addr string) (net.Conn, error) {
	results := make(chan dialResult, len(routes))
	for _, m := range routes {
		go func() {
			conn, err := m.Dial(ctx, "tcp", addr)
			results <- dialResult{conn, err}
		}()
	}
	errs := []error{fmt.Errorf("reach %s", addr)}
	for i := range len(routes) {
		r := <-results
		if r.err == nil {
			go closeRest(results, len(routes)-i-1)
			return r.conn, nil
		}
		errs = append(errs, r.err)
	}
	return nil, errors.Join(errs...)
}
