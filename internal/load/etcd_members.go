package load

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
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
	current   atomic.Pointer[[]string] // client URLs of the members at the last look-up; nil: none yet

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
		TLS: m.tls, Dial: m.dialTCP,
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

func (m *etcdMembers) dialTCP(ctx context.Context, address string) (net.Conn, error) {
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

// addresses returns the client URLs of the current members, followed by all others at which one
// may be.
func (m *etcdMembers) addresses() []string {
	var all []string
	if current := m.current.Load(); current != nil {
		all = slices.Clone(*current)
	}
	for _, url := range m.endpoints() {
		if !slices.Contains(all, url) {
			all = append(all, url)
		}
	}
	return all
}

// update looks up the client URLs of the members that serve clients, as etcd's client does
// (Client.Sync): not those of learners, and not those of members that have never been started.
func (m *etcdMembers) update(ctx context.Context) ([]string, error) {
	var urls []string
	err := m.callAny(ctx, func(ctx context.Context, member *clientv3.Client) error {
		answer, err := member.MemberList(ctx)
		if err != nil {
			return err
		}
		urls = nil
		for _, listed := range answer.Members {
			if listed.Name != "" && !listed.IsLearner {
				urls = append(urls, listed.ClientURLs...)
			}
		}
		if len(urls) == 0 {
			return errors.New("etcd lists no member that serves clients")
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list members of etcd: %w", err)
	}
	slices.Sort(urls)
	m.current.Store(&urls)
	return urls, nil
}

// callAny calls one member after the other until one answers.
func (m *etcdMembers) callAny(ctx context.Context, call func(context.Context, *clientv3.Client) error) error {
	err := errors.New("etcd has no endpoints")
	for _, endpoint := range m.addresses() {
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
