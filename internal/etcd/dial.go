package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// connect opens connections to the cluster of s. A member is dialled through SSH to its
// own machine. If that machine cannot be reached, or is not a known machine, the member is
// dialled through one of the others.
func (cl *cluster) connect(s Spec) (*client.Clients, error) {
	return cl.connectThrough(s.Bundle, cl.hosts())
}

func (cl *cluster) connectThrough(b *pki.Bundle, hosts []*host.Host) (*client.Clients, error) {
	return cl.connectBy(b, hosts, dialThrough)
}

// dialer dials an address through machines.
type dialer func(ctx context.Context, routes map[string]machine, addr string) (net.Conn, error)

func (cl *cluster) connectBy(b *pki.Bundle, hosts []*host.Host, by dialer) (*client.Clients, error) {
	config, err := cl.clientTLS(b)
	if err != nil {
		return nil, err
	}
	routes := map[string]machine{}
	for _, h := range hosts {
		routes[h.Address()] = cl.machine(h)
	}
	return client.New(config, func(ctx context.Context, addr string) (net.Conn, error) {
		return by(ctx, routes, addr)
	}), nil
}

func (cl *cluster) clientTLS(b *pki.Bundle) (*tls.Config, error) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	// A rotation changes the trusted CAs and the signing CA one after the other. An
	// externally signed certificate may change at any time.
	madeOf := b.Known(pki.Etcd) + b.Signing(pki.Etcd) + b.Signed[client.CertificateOf(b).Name].Certificate
	if cl.tls != nil && time.Since(cl.issued) < 30*time.Minute && cl.madeOf == madeOf {
		return cl.tls, nil
	}
	config, err := client.TLS(b, time.Now())
	if err != nil {
		return nil, err
	}
	cl.tls, cl.madeOf, cl.issued = config, madeOf, time.Now()
	return config, nil
}

// dialThrough dials addr from its own machine, else from any other reachable machine. The
// others are tried in parallel, so that one dead machine does not use up the time of the
// rest.
func dialThrough(ctx context.Context, routes map[string]machine, addr string) (net.Conn, error) {
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
	return errors.Is(err, host.ErrUnreachable) || errors.Is(err, host.ErrHostKey) || errors.Is(err, host.ErrAuth) || errors.Is(err, host.ErrNotRoot)
}

// dialAny dials addr from every machine in parallel: one machine may reach what another
// cannot.
func dialAny(ctx context.Context, routes map[string]machine, addr string) (net.Conn, error) {
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
