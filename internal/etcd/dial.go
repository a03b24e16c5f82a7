package etcd

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// connect opens connections to the cluster of s. A member is dialled through SSH to its
// own machine. If that machine cannot be reached, or is not a known machine, the member is
// dialled through one of the others.
func (cl *cluster) connect(s Spec) (*client.Clients, error) {
	return cl.connectThrough(s.Bundle, cl.hosts())
}

func (cl *cluster) connectThrough(b *pki.Bundle, hosts []*host.Host) (*client.Clients, error) {
	return cl.connectBy(b, hosts, machine.DialThrough)
}

func (cl *cluster) connectBy(b *pki.Bundle, hosts []*host.Host, by machine.Dialer) (*client.Clients, error) {
	config, err := cl.clientTLS(b)
	if err != nil {
		return nil, err
	}
	routes := map[string]machine.Machine{}
	for _, h := range hosts {
		routes[h.Address()] = cl.machine(h)
	}
	return client.New(config, func(ctx context.Context, addr string) (net.Conn, error) {
		return by(ctx, routes, addr)
	}), nil
}

func (cl *cluster) clientTLS(b *pki.Bundle) (*tls.Config, error) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	// A rotation changes the trusted CAs and the signing CA one after the other. An
	// externally signed certificate may change at any time.
	madeOf := b.Known(pki.Etcd) + b.Signing(pki.Etcd) + b.Signed[client.CertificateOf(b).Name].Certificate
	if cl.tls != nil && time.Since(cl.issued) < 30*time.Minute && cl.madeOf == madeOf {
		return cl.tls, nil
	}
	config, err := client.TLS(b, time.Now())
	if err != nil {
		return nil, err
	}
	cl.tls, cl.madeOf, cl.issued = config, madeOf, time.Now()
	return config, nil
}
