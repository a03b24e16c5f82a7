// Package client talks to the members of an etcd cluster, with one client of etcd's own
// (clientv3) for each member's address, so that it is known which member answers.
package client

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
)

const (
	// RequestTimeout limits a read from one member. A member that takes longer
	// counts as not answering.
	RequestTimeout = 3 * time.Second
	// ChangeTimeout limits a membership change. etcd itself gives up after 5 s
	// plus two election timeouts.
	ChangeTimeout = 10 * time.Second
)

// Clients talks to the members of one cluster. Each member's address has a client
// of its own, like etcdctl with a single endpoint, so it is known which member
// answers.
type Clients struct {
	TLS  *tls.Config
	Dial func(ctx context.Context, addr string) (net.Conn, error)

	// Limit lowers the timeout of each request; 0 keeps the default.
	Limit time.Duration

	// Leaderless, if set, lets MemberList return at once if a member lately had no leader, and has none.
	Leaderless *Leaderless

	// MaxAnswer is the largest answer in bytes; 0 means maxAnswer.
	MaxAnswer int

	// Around, if set, is called before every call that changes a member or the cluster, with the
	// member's address. The returned function is called when the call has ended.
	Around func(address, summary string) (ended func())

	mu      sync.Mutex
	clients map[string]*clientv3.Client // by address
}

// New returns the clients of a cluster's members. dial connects to an address.
func New(config *tls.Config, dial func(ctx context.Context, addr string) (net.Conn, error)) *Clients {
	return &Clients{TLS: config, Dial: dial}
}

// limitOr returns the timeout of a request whose default is usual.
func (c *Clients) limitOr(usual time.Duration) time.Duration {
	if c.Limit > 0 {
		return min(c.Limit, usual)
	}
	return usual
}

// Close closes the connections to all members.
func (c *Clients) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, member := range c.clients {
		_ = member.Close() // nothing is lost: every call has been answered or given up
	}
	c.clients = nil
}

// member returns the client of the member at an address.
func (c *Clients) member(address string) (*clientv3.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if member, ok := c.clients[address]; ok {
		return member, nil
	}
	member, err := Connect(membership.ClientURL(address),
		Options{TLS: c.TLS, Dial: c.Dial, MaxAnswer: c.MaxAnswer, Around: c.Around})
	if err != nil {
		return nil, err
	}
	if c.clients == nil {
		c.clients = map[string]*clientv3.Client{}
	}
	c.clients[address] = member
	return member, nil
}

// Call runs f with the client of the member at an address, within timeout.
func (c *Clients) Call(
	ctx context.Context, address string, timeout time.Duration, f func(context.Context, *clientv3.Client) error,
) error {
	member, err := c.member(address)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.limitOr(timeout))
	defer cancel()
	return f(ctx, member)
}
