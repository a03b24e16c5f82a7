package load

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

const (
	// updateInterval is how often the direct writer looks up the members.
	updateInterval = time.Second
	// keepAliveTime and keepAliveTimeout are those of kube-apiserver's client of etcd
	// (k8s.io/apiserver, storage/storagebackend/factory/etcd3.go).
	keepAliveTime    = 30 * time.Second
	keepAliveTimeout = 10 * time.Second
)

// etcdClient is etcd's own client with the addresses of all current members, as programs use it.
// It balances calls over the connections that are up, and a call waits if there is none. It never
// repeats a write that it has sent. A connection to an address where nobody listens is counted as
// refused.
type etcdClient struct {
	members *etcdMembers
	dials   dials
	client  *clientv3.Client // nil before open
	urls    []string         // those that client has
}

// open looks up the members and connects to them.
func (c *etcdClient) open(ctx context.Context) error {
	err := retry(ctx, func(ctx context.Context) (err error) {
		c.urls, err = c.members.update(ctx)
		return err
	})
	if err != nil {
		return err
	}
	c.client, err = clientv3.New(clientv3.Config{
		Endpoints: c.urls, TLS: c.members.tls.Clone(), Logger: zap.NewNop(),
		DialKeepAliveTime: keepAliveTime, DialKeepAliveTimeout: keepAliveTimeout,
		DialOptions: []grpc.DialOption{
			grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
				return c.dials.dial(ctx, c.members.dial, "tcp", address)
			}),
			grpc.WithNoProxy(),
			grpc.WithStatsHandler(attemptStats{}),
			grpc.WithConnectParams(grpc.ConnectParams{ // a member that comes back is used within a second
				Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, MaxDelay: time.Second},
				MinConnectTimeout: requestTimeout,
			}),
		},
	})
	if err != nil {
		return fmt.Errorf("connect to etcd: %w", err)
	}
	return nil
}

// follow keeps the addresses of the client those of the current members, until ctx ends. As long
// as no member answers, they stay.
func (c *etcdClient) follow(ctx context.Context) {
	for Sleep(ctx, updateInterval) == nil {
		urls, err := c.members.update(ctx)
		if err == nil && !slices.Equal(urls, c.urls) {
			c.urls = urls
			c.client.SetEndpoints(urls...)
		}
	}
}

// put writes one key.
func (c *etcdClient) put(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, err := c.client.Put(ctx, key, key)
	return err
}

func (c *etcdClient) close() {
	if c.client != nil {
		_ = c.client.Close() // every call has ended
	}
}
