package load

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// KeptPeer returns the certificate of the API server that the kept connection leads to, while the clients work. It
// names the machine even if several machines have one address, or if a balancer passes the connection on.
func (l *Load) KeptPeer(ctx context.Context) (*x509.Certificate, error) {
	if l.admin == nil {
		return nil, errors.New("there is no client of the API")
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if err := l.admin.enter(ctx); err != nil {
		return nil, fmt.Errorf("ask who is at the end of the kept connection: %w", err)
	}
	defer l.admin.leave()
	one := l.api.selected(url.Values{"limit": {"1"}})
	response, err := l.api.send(ctx, l.admin, http.MethodGet, l.api.configMaps(), one, nil)
	if err != nil {
		return nil, fmt.Errorf("ask who is at the end of the kept connection: %w", err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return nil, fmt.Errorf("ask who is at the end of the kept connection: %w", err)
	}
	if response.TLS == nil || len(response.TLS.PeerCertificates) == 0 {
		return nil, errors.New("the server of the kept connection has no certificate")
	}
	return response.TLS.PeerCertificates[0], nil
}
