package client

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
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

// TLS issues the client certificate of one process. It exists only in memory, and only for
// an hour, unless it was signed externally.
func TLS(b *pki.Bundle, now time.Time) (*tls.Config, error) {
	pair, err := b.Issue(CertificateOf(b), now, time.Hour)
	if err != nil {
		return nil, fmt.Errorf("issue client certificate: %w", err)
	}
	certificate, err := tls.X509KeyPair([]byte(pair.Certificate), []byte(pair.PrivateKey))
	if err != nil {
		return nil, fmt.Errorf("load client certificate: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(b.Known(pki.Etcd))) {
		return nil, errors.New("the bundle's etcd CA certificate cannot be parsed")
	}
	return &tls.Config{Certificates: []tls.Certificate{certificate}, RootCAs: roots, MinVersion: tls.VersionTLS12}, nil
}
