// Package client talks to the members of an etcd cluster, with one client of etcd's own
// (clientv3) for each member's address, so that it is known which member answers.
package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

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

	// MaxAnswer is the largest answer in bytes; 0 means maxAnswer.
	MaxAnswer int

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

const (
	// maxHeader limits the metadata of an answer, such as the text of a status.
	maxHeader = 64 << 10
	// maxAnswer limits an answer by default. Pages of keys may be larger.
	maxAnswer = 4 << 20
)

// member returns the client of the member at an address. The client never retries:
// a failed call may have taken effect, so the caller decides what to do.
func (c *Clients) member(address string) (*clientv3.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if member, ok := c.clients[address]; ok {
		return member, nil
	}
	config := c.TLS.Clone()
	config.ServerName = address
	member, err := clientv3.New(clientv3.Config{
		Endpoints:          []string{membership.ClientURL(address)},
		TLS:                config,
		Logger:             zap.NewNop(),
		MaxUnaryRetries:    1,
		MaxCallRecvMsgSize: cmp.Or(c.MaxAnswer, maxAnswer),
		DialOptions: []grpc.DialOption{
			grpc.WithContextDialer(c.Dial),
			grpc.WithChainUnaryInterceptor(failFast),
			grpc.WithNoProxy(),
			grpc.WithMaxHeaderListSize(maxHeader),
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.5, MaxDelay: 500 * time.Millisecond},
				MinConnectTimeout: RequestTimeout,
			}),
		},
	})
	if err != nil {
		return nil, fmt.Errorf("connect to etcd at %s: %w", address, err)
	}
	// The default Maintenance opens a new connection for each call.
	member.Maintenance = clientv3.NewMaintenanceFromMaintenanceClient(clientv3.RetryMaintenanceClient(member, member.ActiveConnection()), member)
	if c.clients == nil {
		c.clients = map[string]*clientv3.Client{}
	}
	c.clients[address] = member
	return member, nil
}

// failFast makes calls to an unreachable member fail immediately. By default,
// clientv3 waits for a connection until the call times out.
func failFast(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	return invoke(ctx, method, req, reply, conn, append(opts, grpc.WaitForReady(false))...)
}

// Call runs f with the client of the member at an address, within timeout.
func (c *Clients) Call(ctx context.Context, address string, timeout time.Duration, f func(context.Context, *clientv3.Client) error) error {
	member, err := c.member(address)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.limitOr(timeout))
	defer cancel()
	return f(ctx, member)
}
