package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// pace are the waits of the algorithms. They differ in tests only.
type pace struct {
	Gather   time.Duration // after the last arrival, before a bootstrap begins without the missing peers
	Poll     time.Duration // between two looks while waiting
	Patience time.Duration // for a refusing condition to clear by itself
	Settle   time.Duration // all healthy, between two restarts: etcd counts a member as connected after 5 s (HealthInterval)
	Serving  time.Duration // in which nothing of a member moves that shall serve, or catch up: then it is stuck
	Cleanup  time.Duration // for undoing a failed join when the caller's time is over
}

var usualPace = pace{
	Gather:   500 * time.Millisecond,
	Poll:     100 * time.Millisecond,
	Patience: 20 * time.Second,
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

	mu        sync.Mutex
	gathering *batch         // nil: the next arrival opens one
	leaving   map[string]int // members whose Delete is under way
	restarted time.Time      // when this process last saw a member back after restarting it
	upgrades  upgrades       // of this process
	waited    time.Time      // when a wait for leave to restart a member last ended in vain
	tls       *tls.Config    // client certificate, issued once
	madeOf    string         // what tls was made of
	issued    time.Time      // of tls
}

// of returns the cluster that a spec belongs to.
func (c *Clusters) of(s Spec) *cluster { return c.named(s.Bundle.ClusterID) }

func (c *Clusters) named(clusterID string) *cluster {
	c.mu.Lock()
	defer c.mu.Unlock()
	cl, ok := c.clusters[clusterID]
	if !ok {
		cl = &cluster{pace: c.pace, machine: c.machine, leaving: map[string]int{}}
		c.clusters[clusterID] = cl
	}
	return cl
}

// converse opens a conversation with the cluster of s. A member is dialled
// through its own machine's SSH; when that cannot be had, or when it is no
// machine of ours, through one of the others, which can reach it anyway.
func (cl *cluster) converse(s Spec) (*conversation, error) {
	return cl.converseThrough(s.Bundle, append(slices.Collect(maps.Values(s.Peers)), s.Host))
}

func (cl *cluster) converseThrough(b *pki.Bundle, hosts []*host.Host) (*conversation, error) {
	config, err := cl.clientTLS(b)
	if err != nil {
		return nil, err
	}
	routes := map[string]machine{}
	for _, h := range hosts {
		routes[h.Address()] = cl.machine(h)
	}
	return &conversation{tls: config, dial: func(ctx context.Context, addr string) (net.Conn, error) {
		return dialThrough(ctx, routes, addr)
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

// lostMachine reports whether an error means that the machine could not be
// had, rather than that it answered with a refusal.
func lostMachine(err error) bool {
	return errors.Is(err, host.ErrUnreachable) || errors.Is(err, host.ErrHostKey) || errors.Is(err, host.ErrAuth)
}

// look observes one machine.
func (cl *cluster) look(ctx context.Context, s Spec, name string, h *host.Host) found {
	facts, err := cl.machine(h).Observe(ctx, query(s))
	return interpret(name, h.Address(), s.dataDir(), facts, err)
}

// lookAround observes every machine of peers at once, sorted by name.
func (cl *cluster) lookAround(ctx context.Context, s Spec) []found {
	all := maps.Clone(s.Peers)
	if all == nil {
		all = map[string]*host.Host{}
	}
	all[s.Name] = s.Host
	names := slices.Sorted(maps.Keys(all))
	machines := make([]found, len(names))
	var group sync.WaitGroup
	for i, name := range names {
		group.Go(func() { machines[i] = cl.look(ctx, s, name, all[name]) })
	}
	group.Wait()
	return machines
}

// addresses are those of all peers, this member's first.
func addresses(s Spec) []string {
	all := []string{s.Host.Address()}
	for _, name := range slices.Sorted(maps.Keys(s.Peers)) {
		if a := s.Peers[name].Address(); !slices.Contains(all, a) {
			all = append(all, a)
		}
	}
	return all
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
func refusal(summary string, s Spec, v *View, cause, unchanged, next string) error {
	p := &problem.Problem{Summary: summary, Host: s.label(), Cause: cause, Unchanged: unchanged, Next: next}
	if v != nil {
		p.Detail = v.String()
	}
	return p
}
