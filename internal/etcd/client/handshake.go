package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"time"
)

// Handshakes reports whether the server at an address answers a TLS handshake, successful or not, as a member of the
// cluster does: with a certificate of an authority of the cluster, whatever its dates and names are, or with an alert,
// as etcd does that cannot read its certificate. An accepted connection alone is no answer: the kernel accepts it for a
// frozen process too. A server without TLS, or with the certificate of another authority, is another service, which has
// the address now. Nothing is sent after the handshake.
func (c *Clients) Handshakes(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, c.limitOr(RequestTimeout))
	defer cancel()
	conn, err := c.Dial(ctx, net.JoinHostPort(address, "2379"))
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	own := false
	config := c.TLS.Clone()
	config.ServerName, config.InsecureSkipVerify = address, true //nolint:gosec // only who has signed it counts
	config.VerifyPeerCertificate = func(chain [][]byte, _ [][]*x509.Certificate) error {
		if own = signedBy(c.TLS.RootCAs, chain); !own {
			return errors.New("the certificate is of another authority")
		}
		return nil
	}
	err = tls.Client(conn, config).HandshakeContext(ctx)
	var alert *net.OpError
	return own || errors.As(err, &alert) && alert.Op == "remote error"
}

// signedBy reports whether roots have signed the first certificate of a chain (DER), whenever it is valid.
func signedBy(roots *x509.CertPool, chain [][]byte) bool {
	leaf, err := x509.ParseCertificate(chain[0])
	if err != nil {
		return false
	}
	others := x509.NewCertPool()
	for _, der := range chain[1:] {
		if other, err := x509.ParseCertificate(der); err == nil {
			others.AddCert(other)
		}
	}
	for _, at := range []time.Time{leaf.NotBefore, leaf.NotAfter} { // an authority may have been renewed in between
		if _, err := leaf.Verify(x509.VerifyOptions{
			Roots: roots, Intermediates: others, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
		}); err == nil {
			return true
		}
	}
	return false
}
