package load

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// target is the API server of a kubeconfig.
type target struct {
	server *url.URL
	tls    *tls.Config
	dial   Dial
}

func readTarget(cfg Config) (target, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(cfg.Kubeconfig))
	if err != nil {
		return target{}, fmt.Errorf("read kubeconfig: %w", err)
	}
	credentials, err := rest.TLSConfigFor(config)
	if err != nil {
		return target{}, fmt.Errorf("read kubeconfig: %w", err)
	}
	if credentials == nil {
		return target{}, errors.New("read kubeconfig: it has neither an authority nor a client certificate")
	}
	server, err := url.Parse(config.Host)
	if err != nil {
		return target{}, fmt.Errorf("read kubeconfig: %w", err)
	}
	return target{server: server, tls: credentials, dial: cfg.Dial}, nil
}

// maxStreams is how many requests may wait on a kept connection at once. It is less than the
// 100 that kube-apiserver allows, with room for watches. With one more, the Transport would
// open a second connection, and requests that wait for a stalled server would succeed there.
// (Letting the Transport queue them is not safe: golang/go#70809.)
const maxStreams = 90

// link is one client's connection to the API. Each has its own Transport, so that connections
// are not shared.
type link struct {
	transport *http.Transport
	dials     dials
	streams   chan struct{} // taken while a request is in flight; nil: every request opens its own connection
}

// enter waits for a stream. If it succeeds, the caller must leave.
func (l *link) enter(ctx context.Context) error {
	if l.streams == nil {
		return nil
	}
	select {
	case l.streams <- struct{}{}:
		return nil
	case <-ctx.Done():
		return errNotSent
	}
}

func (l *link) leave() {
	if l.streams != nil {
		<-l.streams
	}
}

func (t target) link(protocols func(*http.Protocols)) *link {
	l := &link{transport: &http.Transport{
		TLSClientConfig:     t.tls.Clone(), // without session cache: every handshake is complete
		TLSHandshakeTimeout: requestTimeout,
		Protocols:           new(http.Protocols),
	}}
	protocols(l.transport.Protocols)
	l.transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		// A Transport lets a dial outlive its request. No request waits longer than this for
		// it.
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		return l.dials.dial(ctx, t.dial, network, address)
	}
	return l
}

// kept keeps one HTTP/2 connection, as every client built on client-go does, with client-go's
// values for detecting a dead connection. When the connection ends, or a GOAWAY announces its
// end, the Transport opens the next one and resends there what the server has not begun to
// process (RFC 9113, 6.8). That is not a retry of this package: every client of Go's standard
// library does it. Such requests are counted as repeated.
func (t target) kept() *link {
	l := t.link(func(p *http.Protocols) { p.SetHTTP2(true) })
	l.streams = make(chan struct{}, maxStreams)
	l.transport.HTTP2 = &http.HTTP2Config{
		SendPingTimeout: 30 * time.Second,
		PingTimeout:     15 * time.Second,
	}
	return l
}

// fresh opens a new connection for every request.
func (t target) fresh() *link {
	l := t.link(func(p *http.Protocols) { p.SetHTTP1(true) })
	l.transport.DisableKeepAlives = true
	return l
}
