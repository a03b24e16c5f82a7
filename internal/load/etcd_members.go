package load

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"

	etcdclient "github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
)

// etcdMembers has one client for each member's client URL, so that it is known which member
// answers.
type etcdMembers struct {
	dial      Dial
	tls       *tls.Config
	endpoints func() []string
	dialled   atomic.Int64

	mu      sync.Mutex
	clients map[string]*clientv3.Client // by client URL
}

// member returns the client of the member at a client URL.
func (m *etcdMembers) member(clientURL string) (*clientv3.Client, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if member, ok := m.clients[clientURL]; ok {
		return member, nil
	}
	member, err := etcdclient.Connect(clientURL, etcdclient.Options{
		TLS: m.tls, Dial: m.dialCounted,
		Timeout: requestTimeout,
	})
	if err != nil {
		return nil, err
	}
	if m.clients == nil {
		m.clients = map[string]*clientv3.Client{}
	}
	m.clients[clientURL] = member
	return member, nil
}

// dialCounted dials an address and counts it.
func (m *etcdMembers) dialCounted(ctx context.Context, address string) (net.Conn, error) {
	m.dialled.Add(1)
	return m.dial(ctx, "tcp", address)
}

// call calls the member at a client URL.
func (m *etcdMembers) call(
	ctx context.Context, clientURL string, call func(context.Context, *clientv3.Client) error,
) error {
	member, err := m.member(clientURL)
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
