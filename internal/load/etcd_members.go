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

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

// etcdMembers has one client for each member's client URL, so that it is known which member
// answers. The clients never retry.
type etcdMembers struct {
	dial      Dial
	tls       *tls.Config
	endpoints func() []string
	dialled   atomic.Int64

	mu      sync.Mutex
	clients map[string]*clientv3.Client // by client URL
}

// client returns the client of the member at a client URL.
func (m *etcdMembers) client(clientURL string) (*clientv3.Client, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if member, ok := m.clients[clientURL]; ok {
		return member, nil
	}
	member, err := m.connect(clientURL)
	if err != nil {
		return nil, fmt.Errorf("connect to etcd at %s: %w", clientURL, err)
	}
	if m.clients == nil {
		m.clients = map[string]*clientv3.Client{}
	}
	m.clients[clientURL] = member
	return member, nil
}

func (m *etcdMembers) connect(clientURL string) (*clientv3.Client, error) {
	where, err := url.Parse(clientURL)
	if err != nil {
		return nil, err
	}
	config := m.tls.Clone()
	config.ServerName = where.Hostname()
	member, err := clientv3.New(clientv3.Config{
		Endpoints: []string{clientURL}, TLS: config, Logger: zap.NewNop(), MaxUnaryRetries: 1,
		DialOptions: []grpc.DialOption{
			grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
				m.dialled.Add(1)
				return m.dial(ctx, "tcp", address)
			}),
			grpc.WithNoProxy(),
			grpc.WithChainUnaryInterceptor(failFast),
			grpc.WithConnectParams(grpc.ConnectParams{ // a member that comes back is used immediately
				Backoff: backoff.Config{
					BaseDelay: 50 * time.Millisecond, Multiplier: 1.5,
					MaxDelay: 500 * time.Millisecond,
				},
				MinConnectTimeout: requestTimeout,
			}),
		},
	})
	if err != nil {
		return nil, err
	}
	// The default Maintenance opens a new connection for each call.
	member.Maintenance = clientv3.NewMaintenanceFromMaintenanceClient(clientv3.RetryMaintenanceClient(member,
		member.ActiveConnection()), member)
	return member, nil
}

// failFast makes calls fail while there is no connection. By default, clientv3 waits for one.
func failFast(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, call grpc.UnaryInvoker,
	options ...grpc.CallOption,
) error {
	return call(ctx, method, request, reply, conn, append(options, grpc.WaitForReady(false))...)
}

// call calls the member at a client URL.
func (m *etcdMembers) call(ctx context.Context, clientURL string,
	call func(context.Context, *clientv3.Client) error,
) error {
	member, err := m.client(clientURL)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return call(ctx, member)
}

// callAny calls one member after the other until one answers.
func (m *etcdMembers) callAny(ctx context.Context, call func(context.Context, *clientv3.Client) error) error {
	err := errors.New("etcd has no endpoints")
	for _, endpoint := range m.endpoints() {
		if err = m.call(ctx, endpoint, call); err == nil {
			return nil
		}
	}
	return err
}

func (m *etcdMembers) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, member := range m.clients {
		_ = member.Close() // every call has ended
	}
	m.clients = nil
}
