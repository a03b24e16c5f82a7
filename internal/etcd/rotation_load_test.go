package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/wait"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/poll"
)

// writer is a client of the cluster that knows one generation of the authority, as an API
// server does. Each write uses a new connection, so that each one is a handshake.
type writer struct {
	name      string
	tls       *tls.Config
	addresses []string
	acked     map[string]string
}

func (f *fleet) writer(name string, b *pki.Bundle, specs map[string]Spec) *writer {
	f.t.Helper()
	pair, err := b.Issue(pki.APIServerEtcdClient(), time.Now(), time.Hour)
	if err != nil {
		f.t.Fatal(err)
	}
	certificate, err := tls.X509KeyPair([]byte(pair.Certificate), []byte(pair.PrivateKey))
	if err != nil {
		f.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(b.Anchors(pki.Etcd)))
	w := &writer{name: name, tls: &tls.Config{
		Certificates: []tls.Certificate{certificate}, RootCAs: roots,
		MinVersion: tls.VersionTLS12,
	}, acked: map[string]string{}}
	for _, s := range specs {
		w.addresses = append(w.addresses, s.Host.Address())
	}
	slices.Sort(w.addresses)
	return w
}

// put writes through the member at one address.
func (w *writer) put(ctx context.Context, address, key, value string) error {
	clients := client.New(w.tls, func(ctx context.Context, addr string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", addr)
	})
	defer clients.Close()
	return clients.Call(ctx, address, client.RequestTimeout, func(ctx context.Context, member *clientv3.Client) error {
		_, err := member.Put(ctx, key, value)
		return err
	})
}

// run writes one key after another until the end, each through any member that accepts it:
// there must be a quorum within the time of a call.
func (w *writer) run(ctx context.Context, t *testing.T) {
	for i := 0; ctx.Err() == nil; i++ {
		if wait.Pause(ctx, 10*time.Millisecond) != nil { // leaves CPU time for the other tests
			return
		}
		key, value := fmt.Sprintf("/load/%s/%06d", w.name, i), fmt.Sprint(time.Now().UnixNano())
		begin := time.Now()
		var err error
		for try := 0; ; try++ {
			if err = w.put(context.WithoutCancel(ctx), w.addresses[(i+try)%len(w.addresses)], key, value); err == nil {
				w.acked[key] = value
				break
			}
			if time.Since(begin) > 2*client.RequestTimeout {
				t.Errorf("%s: no member takes a write any more: %v", w.name, err)
				return
			}
		}
	}
}

// under runs f while the writers write.
func (f *fleet) under(writers []*writer, do func()) {
	f.t.Helper()
	ctx, stop := context.WithCancel(f.context())
	defer stop()
	var group sync.WaitGroup
	for _, w := range writers {
		group.Go(func() { w.run(ctx, f.t) })
	}
	do()
	stop()
	group.Wait()
}

// accepted checks that every member accepts writes of every writer.
func (f *fleet) accepted(writers []*writer) {
	f.t.Helper()
	for _, w := range writers {
		for _, address := range w.addresses {
			done, err := poll.Until(f.context(), 20*time.Millisecond, 10*time.Second, func() (bool, error) {
				return w.put(f.context(), address, "/accepted/"+w.name, address) == nil, nil
			})
			if !done || err != nil {
				f.t.Errorf("%s takes no writes of the client %s: %v", address, w.name, w.put(f.context(), address, "/accepted", ""))
			}
		}
	}
}
