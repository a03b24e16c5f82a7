package client

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// CertificateOf returns the certificate to authenticate with. If the authority's key is
// external, a bundle contains what was signed for its machine: a replica's bundle has only
// its API server's client certificate.
func CertificateOf(b *pki.Bundle) pki.Leaf {
	own, replicas := pki.EtcdHealthcheckClient(), pki.APIServerEtcdClient()
	_, asMember := b.Signed[own.Name]
	if _, asReplica := b.Signed[replicas.Name]; asReplica && !asMember {
		return replicas
	}
	return own
}

// clientLife is the life of a client certificate that this process issues.
const clientLife = time.Hour

// TLS returns the client configuration of one process. Its certificate exists only in memory, and only for clientLife,
// unless it was signed externally. An operation may take longer: connections that it opens later have another one.
func TLS(b *pki.Bundle, now func() time.Time) (*tls.Config, error) {
	c := &clientCertificate{bundle: b, now: now}
	if _, err := c.get(nil); err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(b.Known(pki.Etcd))) {
		return nil, errors.New("the bundle's etcd CA certificate cannot be parsed")
	}
	return &tls.Config{GetClientCertificate: c.get, RootCAs: roots, MinVersion: tls.VersionTLS12}, nil
}

// clientCertificate issues a client certificate again when half of its life has passed.
type clientCertificate struct {
	bundle *pki.Bundle
	now    func() time.Time

	mu      sync.Mutex
	present *tls.Certificate
	due     time.Time // for renewal
}

// get returns the certificate for one handshake. One that cannot be issued again is used until it expires.
func (c *clientCertificate) get(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if c.present != nil && now.Before(c.due) {
		return c.present, nil
	}
	next, err := issueClient(c.bundle, now)
	switch {
	case err == nil:
		c.present, c.due = next, now.Add(next.Leaf.NotAfter.Sub(now)/2)
	case c.present == nil || now.After(c.present.Leaf.NotAfter):
		return nil, err
	}
	return c.present, nil
}

// issueClient issues a client certificate, or returns the one that was signed externally.
func issueClient(b *pki.Bundle, now time.Time) (*tls.Certificate, error) {
	pair, err := b.Issue(CertificateOf(b), now, clientLife)
	if err != nil {
		return nil, fmt.Errorf("issue client certificate: %w", err)
	}
	certificate, err := tls.X509KeyPair([]byte(pair.Certificate), []byte(pair.PrivateKey))
	if err != nil {
		return nil, fmt.Errorf("load client certificate: %w", err)
	}
	return &certificate, nil
}
