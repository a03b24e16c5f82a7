// Package client speaks with the members of an etcd cluster: one client of etcd's
// own (clientv3) for each member's address, so that it is known who answers.
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
	// RequestTimeout bounds a question to one member. etcd itself gives a
	// linearizable read up when it has no leader; a member that takes longer
	// than this is as good as silent.
	RequestTimeout = 3 * time.Second
	// ChangeTimeout bounds a membership change, which etcd itself ends after
	// 5 s plus two election timeouts.
	ChangeTimeout = 10 * time.Second
)

// Clients speaks with the members of one cluster: one client for each
// member's address, as etcdctl does with one endpoint, dialled through SSH. So it
// is known which member an answer comes from.
type Clients struct {
	TLS  *tls.Config
	Dial func(ctx context.Context, addr string) (net.Conn, error)

	// Limit bounds a question to one member where that has to be less than
	// RequestTimeout; 0: it has not.
	Limit time.Duration

	// MaxAnswer bounds an answer in bytes where it may be larger than usual; 0: it may not.
	MaxAnswer int

	mu      sync.Mutex
	clients map[string]*clientv3.Client // by address
}

// New returns the clients of a cluster's members: dial connects to one.
func New(config *tls.Config, dial func(ctx context.Context, addr string) (net.Conn, error)) *Clients {
	return &Clients{TLS: config, Dial: dial}
}

// limitOr is the time for one question that usually has so much.
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
	// maxHeader bounds what a member says beside an answer: a status with its text.
	maxHeader = 64 << 10
	// maxAnswer bounds an answer that is not a page of keys.
	maxAnswer = 4 << 20
)

// member returns the client of the member at an address. It never retries: a call
// that failed may have been carried out, and who calls decides what to do about it.
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
	// Its own would make a connection for each call, to choose a member by itself.
	member.Maintenance = clientv3.NewMaintenanceFromMaintenanceClient(clientv3.RetryMaintenanceClient(member, member.ActiveConnection()), member)
	if c.clients == nil {
		c.clients = map[string]*clientv3.Client{}
	}
	c.clients[address] = member
	return member, nil
}

// failFast makes a call to a member that cannot be reached fail at once. The
// client's default waits for a connection until the time of the call is over.
func failFast(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	return invoke(ctx, method, req, reply, conn, append(opts, grpc.WaitForReady(false))...)
}

// Call runs f against the member at an address, bounded by timeout.
func (c *Clients) Call(ctx context.Context, address string, timeout time.Duration, f func(context.Context, *clientv3.Client) error) error {
	member, err := c.member(address)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.limitOr(timeout))
	defer cancel()
	return f(ctx, member)
}
