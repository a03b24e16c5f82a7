package load

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
)

// etcdMembers speaks with etcd's members, each at its client URL. The generated
// stubs are used, not clientv3, which would balance and retry.
type etcdMembers struct {
	dial      Dial
	tls       *tls.Config
	endpoints func() []string
	dialled   atomic.Int64

	mu    sync.Mutex
	conns map[string]*grpc.ClientConn // by client URL
}

// connect returns the connection to the member at a client URL.
func (m *etcdMembers) connect(clientURL string) (*grpc.ClientConn, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if conn, ok := m.conns[clientURL]; ok {
		return conn, nil
	}
	where, err := url.Parse(clientURL)
	if err != nil {
		return nil, fmt.Errorf("connect to etcd: %w", err)
	}
	config := m.tls.Clone()
	config.ServerName = where.Hostname()
	conn, err := grpc.NewClient("passthrough:///"+where.Host,
		grpc.WithTransportCredentials(credentials.NewTLS(config)),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			m.dialled.Add(1)
			return m.dial(ctx, "tcp", address)
		}),
		grpc.WithNoProxy(),
		grpc.WithDisableRetry(),
		grpc.WithConnectParams(grpc.ConnectParams{ // a member that comes back is used at once
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.5, MaxDelay: 500 * time.Millisecond},
			MinConnectTimeout: requestTimeout,
		}))
	if err != nil {
		return nil, fmt.Errorf("connect to etcd: %w", err)
	}
	if m.conns == nil {
		m.conns = map[string]*grpc.ClientConn{}
	}
	m.conns[clientURL] = conn
	return conn, nil
}

// ask calls the member at a client URL.
func (m *etcdMembers) ask(ctx context.Context, clientURL string, question func(context.Context, *grpc.ClientConn) error) error {
	conn, err := m.connect(clientURL)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return question(ctx, conn)
}

// askAny calls one member after the other until one answers.
func (m *etcdMembers) askAny(ctx context.Context, question func(context.Context, *grpc.ClientConn) error) error {
	err := errors.New("etcd has no endpoints")
	for _, endpoint := range m.endpoints() {
		if err = m.ask(ctx, endpoint, question); err == nil {
			return nil
		}
	}
	return err
}

func (m *etcdMembers) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, conn := range m.conns {
		_ = conn.Close() // every call has ended
	}
	m.conns = nil
}
