// Package client connects to the components of one replica through SSH: it probes whether they are
// ready, and makes the few requests to the API server that the replica's lifecycle needs.
package client

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

const (
	// adminCertificateLife is the lifetime of the provider's client certificate.
	adminCertificateLife = 10 * time.Minute
	// apiTimeout limits one request.
	apiTimeout = 30 * time.Second
)

// adminAccess is what a typed client needs to connect to a replica's API server.
type adminAccess struct {
	rest         *rest.Config
	web          *http.Client
	certificates []tls.Certificate
}

// Client connects to the components of one replica. Its zero value is not usable.
type Client struct {
	host    *host.Host
	replica component.Replica
}

// New returns the client for the replica s on its machine h. It does not connect yet.
func New(h *host.Host, s component.Replica) Client { return Client{host: h, replica: s} }

// hasAdminCertificate reports whether an admin certificate is available. The bundle of an etcd
// member has none if they were signed externally for a replica.
func (c Client) hasAdminCertificate() bool {
	_, signed := c.replica.Bundle.Signed[component.SystemMasters().Name]
	return signed || !c.replica.Bundle.External(pki.Kubernetes)
}

// admin connects to the API server of the replica through SSH, as system:masters, the
// group that bypasses RBAC. The certificate is issued for this call and exists only in memory,
// unless it was signed externally.
func (c Client) admin() (access adminAccess, done func(), err error) {
	config, err := verifiedTLS(c.replica.Bundle, c.replica.Address)
	if err != nil {
		return adminAccess{}, nil, err
	}
	now := time.Now()
	if config.Certificates, err = c.adminCertificate(now); err != nil {
		return adminAccess{}, nil, err
	}
	renewed := &renewedTransport{http: tunnelTransport(c.host, config), since: now}
	renewed.renew = func(now time.Time) (*http.Transport, error) {
		next := config.Clone()
		var err error
		next.Certificates, err = c.adminCertificate(now)
		return tunnelTransport(c.host, next), err
	}
	web := announced(c.host, renewed)
	web.Timeout = apiTimeout
	return adminAccess{
		// unlimited: the server has its own limits
		rest: &rest.Config{Host: c.replica.LocalURL(), UserAgent: "terraform-provider-kube", QPS: -1},
		web:  web, certificates: config.Certificates,
	}, web.CloseIdleConnections, nil
}

// adminCertificate issues the provider's client certificate.
func (c Client) adminCertificate(now time.Time) ([]tls.Certificate, error) {
	pair, err := c.replica.Bundle.Issue(component.SystemMasters(), now, adminCertificateLife)
	if err != nil {
		return nil, err
	}
	certificate, err := tls.X509KeyPair([]byte(pair.Certificate), []byte(pair.PrivateKey))
	if err != nil {
		return nil, fmt.Errorf("load client certificate: %w", err)
	}
	return []tls.Certificate{certificate}, nil
}

// renewedTransport connects again with another client certificate when half of the life of the present one has passed.
// An API server verifies the certificate at every request, also on a connection that exists.
type renewedTransport struct {
	mu    sync.Mutex
	http  *http.Transport
	since time.Time
	renew func(now time.Time) (*http.Transport, error)
}

// RoundTrip implements http.RoundTripper.
func (r *renewedTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	present, err := r.at(time.Now())
	if err != nil {
		return nil, err
	}
	return present.RoundTrip(request)
}

func (r *renewedTransport) at(now time.Time) (*http.Transport, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.since) < adminCertificateLife/2 {
		return r.http, nil
	}
	next, err := r.renew(now)
	if err != nil {
		return nil, fmt.Errorf("renew client certificate: %w", err)
	}
	r.http.CloseIdleConnections()
	r.http, r.since = next, now
	return next, nil
}

// CloseIdleConnections is called by http.Client.
func (r *renewedTransport) CloseIdleConnections() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.http.CloseIdleConnections()
}

// tunnel is an HTTP client whose connections start on machine h, inside the SSH
// connection to it. The caller closes them with CloseIdleConnections.
func tunnel(h *host.Host, config *tls.Config) *http.Client {
	return announced(h, tunnelTransport(h, config))
}

func tunnelTransport(h *host.Host, config *tls.Config) *http.Transport {
	return &http.Transport{
		DialContext:     h.Dial,
		TLSClientConfig: config,
		// One connection is kept open, because a handshake costs the machine more than the
		// request. HTTP/1.1, so that a server that shuts down ends it immediately.
		MaxIdleConnsPerHost:    1,
		MaxResponseHeaderBytes: 64 << 10,
	}
}

// announced is an HTTP client that announces the changes that it asks of machine h, and limits the responses. It
// follows no redirection: another server's answer is not that of the component.
func announced(h *host.Host, by transport) *http.Client {
	around := func(summary string) func() { return h.AroundRequest(h.Address(), summary) }
	return &http.Client{
		Transport:     bounded{around: around, transport: by},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// longestAnswer is in bytes. It is enough for a page of a list, and a compromised machine
// cannot fill the memory of the provider.
const longestAnswer = 32 << 20

var errAnswerTooLong = fmt.Errorf("the answer is longer than %d MiB", longestAnswer>>20)

// transport is what http.Client needs of one.
type transport interface {
	http.RoundTripper
	CloseIdleConnections()
}

// bounded is a transport that limits responses to longestAnswer, and announces the requests that
// change something.
type bounded struct {
	transport
	around func(summary string) (ended func())
}

func (b bounded) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet && request.Method != http.MethodHead {
		defer b.around(request.Method + " " + request.URL.Path)()
	}
	response, err := b.transport.RoundTrip(request)
	if err == nil {
		response.Body = &boundedBody{ReadCloser: response.Body, left: longestAnswer}
	}
	return response, err
}

type boundedBody struct {
	io.ReadCloser
	left int64
}

func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, errAnswerTooLong
	}
	return n, err
}

// verifiedTLS trusts the serving certificate of the API server at address.
func verifiedTLS(b *pki.Bundle, address string) (*tls.Config, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(b.Known(pki.Kubernetes))) {
		return nil, errors.New("the bundle's authority is not a certificate")
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, ServerName: address}, nil
}

// selfSignedTLS accepts any certificate. kube-controller-manager and kube-scheduler serve with
// a certificate that they generate at each start, on a loopback address that is reached through
// SSH, whose host key was verified. The request carries no credentials.
func selfSignedTLS() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}
}
