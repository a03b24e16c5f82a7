package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// pace are the waits of the algorithms. They differ in tests only.
type pace struct {
	Gather   time.Duration // after the last arrival, before a bootstrap begins without the missing peers
	Poll     time.Duration // between two looks while waiting
	Patience time.Duration // for a refusing condition to clear by itself
	Dead     time.Duration // in which a member answers nothing, however it is asked: then it is dead
	Settle   time.Duration // all healthy, between two restarts: etcd counts a member as connected after 5 s (HealthInterval)
	Serving  time.Duration // in which nothing of a member moves that shall serve, or catch up: then it is stuck
	Cleanup  time.Duration // for undoing a failed join when the caller's time is over
}

var usualPace = pace{
	Gather:   500 * time.Millisecond,
	Poll:     100 * time.Millisecond,
	Patience: 20 * time.Second,
	Dead:     10 * time.Second, // two election timeouts, and more than the 5 s of etcd's own
	Settle:   5 * time.Second,
	Serving:  time.Minute,
	Cleanup:  30 * time.Second,
}

// Clusters coordinates the members of each cluster within this process: one
// value per provider. Its methods are safe for the parallel calls that
// Terraform makes.
type Clusters struct {
	pace    pace
	machine func(*host.Host) machine

	mu       sync.Mutex
	clusters map[string]*cluster // by the bundle's cluster id
}

// NewClusters returns an empty coordinator.
func NewClusters() *Clusters {
	return &Clusters{
		pace:     usualPace,
		machine:  func(h *host.Host) machine { return sshMachine{h} },
		clusters: map[string]*cluster{},
	}
}

// cluster is what this process knows of one cluster while it works on it.
type cluster struct {
	pace    pace
	machine func(*host.Host) machine
	turns   turns
	lease   processLease
	ids     clusterIDs

	mu        sync.Mutex
	name      string                  // for messages
	known     map[string]knownMachine // by address
	existed   string                  // the evidence that the cluster exists; "" while there is none
	creates   map[string]error        // members whose Create is under way (nil) or has failed
	gathering *batch                  // nil: the next arrival opens one
	leaving   map[string]int          // members whose Delete is under way
	coming    map[string]int          // peer URLs of members whose Create is under way
	restarted time.Time               // when this process last saw a member back after restarting it
	upgrades  upgrades                // of this process
	waited    time.Time               // when a wait for leave to restart a member last ended in vain
	tls       *tls.Config             // client certificate, issued once
	madeOf    string                  // what tls was made of
	issued    time.Time               // of tls
}

// of returns the cluster that a spec belongs to, which knows its machines from then on.
func (c *Clusters) of(s Spec) *cluster {
	cl := c.named(s.Bundle.ClusterID)
	cl.note(s)
	return cl
}

func (c *Clusters) named(clusterID string) *cluster {
	c.mu.Lock()
	defer c.mu.Unlock()
	cl, ok := c.clusters[clusterID]
	if !ok {
		cl = &cluster{
			pace: c.pace, machine: c.machine, leaving: map[string]int{}, known: map[string]knownMachine{}, creates: map[string]error{},
			lease: processLease{leases: host.NewLeases(LeaseName(clusterID))},
		}
		cl.turns.acquired = func(ctx context.Context) error { return cl.lease.take(ctx, cl) }
		cl.turns.idle = func() { cl.lease.giveBack(cl.turns.empty) }
		c.clusters[clusterID] = cl
	}
	return cl
}

// converse opens a conversation with the cluster of s. A member is dialled
// through its own machine's SSH; when that cannot be had, or when it is no
// machine of ours, through one of the others, which can reach it anyway.
func (cl *cluster) converse(s Spec) (*conversation, error) {
	return cl.converseThrough(s.Bundle, cl.hosts())
}

func (cl *cluster) converseThrough(b *pki.Bundle, hosts []*host.Host) (*conversation, error) {
	return cl.converseBy(b, hosts, dialThrough)
}

// dialer dials an address by way of machines.
type dialer func(ctx context.Context, routes map[string]machine, addr string) (net.Conn, error)

func (cl *cluster) converseBy(b *pki.Bundle, hosts []*host.Host, by dialer) (*conversation, error) {
	config, err := cl.clientTLS(b)
	if err != nil {
		return nil, err
	}
	routes := map[string]machine{}
	for _, h := range hosts {
		routes[h.Address()] = cl.machine(h)
	}
	return &conversation{tls: config, dial: func(ctx context.Context, addr string) (net.Conn, error) {
		return by(ctx, routes, addr)
	}}, nil
}

func (cl *cluster) clientTLS(b *pki.Bundle) (*tls.Config, error) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	// A rotation changes what is trusted and who signs one after the other; a
	// certificate that is signed elsewhere changes by itself.
	madeOf := b.Known(pki.Etcd) + b.Signing(pki.Etcd) + b.Signed[asker(b).Name].Certificate
	if cl.tls != nil && time.Since(cl.issued) < 30*time.Minute && cl.madeOf == madeOf {
		return cl.tls, nil
	}
	config, err := clientTLS(b, time.Now())
	if err != nil {
		return nil, err
	}
	cl.tls, cl.madeOf, cl.issued = config, madeOf, time.Now()
	return config, nil
}

// dialThrough dials addr from its own machine, else from any other that can be
// had. The others are tried at once, so that one dead machine does not eat the
// time of the rest.
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
	results := make(chan dialled, len(routes))
	tried := 0
	for other, m := range routes {
		if other == address {
			continue
		}
		tried++
		go func() {
			conn, err := m.Dial(ctx, "tcp", addr)
			results <- dialled{conn, err}
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

// dialled is the outcome of one of several dials.
type dialled struct {
	conn net.Conn
	err  error
}

// closeRest closes the connections that came too late to be used.
func closeRest(results <-chan dialled, n int) {
	for range n {
		if r := <-results; r.err == nil {
			_ = r.conn.Close() // never used
		}
	}
}

// lostMachine reports whether an error means that there is no SSH connection to
// the machine, rather than that its member refused to be dialled. All it decides
// is the way by which a member is dialled: who answers there is told by TLS, and a
// voter that lives is not to be taken for dead because its machine lets nobody in.
// It gives no machine up: see host.Abandoned.
func lostMachine(err error) bool {
	return errors.Is(err, host.ErrUnreachable) || errors.Is(err, host.ErrHostKey) || errors.Is(err, host.ErrAuth) || errors.Is(err, host.ErrNotRoot)
}

// look observes one machine.
func (cl *cluster) look(ctx context.Context, s Spec, name string, h *host.Host) found {
	facts, err := cl.machine(h).Observe(ctx, query(s))
	return interpret(name, h.Address(), s.dataDir(), facts, err)
}

// lookAround observes every known machine at once, sorted by name, then address.
func (cl *cluster) lookAround(ctx context.Context, s Spec) []found {
	known := cl.machines()
	addresses := slices.Sorted(maps.Keys(known))
	machines := make([]found, len(addresses))
	var group sync.WaitGroup
	for i, address := range addresses {
		group.Go(func() { machines[i] = cl.look(ctx, s, known[address].name, known[address].host) })
	}
	group.Wait()
	slices.SortStableFunc(machines, func(a, b found) int { return strings.Compare(a.Name, b.Name) })
	return machines
}

// until polls f until it reports done, fails, or the time is over; then it
// returns false. The error is f's, or that ctx ended.
func until(ctx context.Context, every, limit time.Duration, f func() (bool, error)) (bool, error) {
	end := time.Now().Add(limit)
	for {
		done, err := f()
		if done || err != nil {
			return done, err
		}
		if time.Now().Add(every).After(end) {
			return false, ctx.Err()
		}
		if err := pause(ctx, every); err != nil {
			return false, err
		}
	}
}

// pause waits, or ends early with ctx's error.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// refusal is the problem for a change that the rules do not allow now.
func refusal(summary string, s Spec, v *membership.View, cause, unchanged, next string) error {
	p := &problem.Problem{Summary: summary, Host: s.label(), Cause: cause, Unchanged: unchanged, Next: next}
	if v != nil {
		p.Detail = v.String()
	}
	return p
}
