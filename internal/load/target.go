package load

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// target is the API server as a kubeconfig describes it.
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

// maxStreams is how many requests may wait on a kept connection at once. It is
// less than the 100 that kube-apiserver grants, with room for watches: for one
// more the Transport would make a second connection, and requests that wait for
// a stalled server would be rescued there. (To let the Transport queue them is
// not safe: golang/go#70809.)
const maxStreams = 90

// link is one client's connection to the API. Each has a Transport of its own, so
// that connections are not shared.
type link struct {
	transport *http.Transport
	dialled   atomic.Int64
	streams   chan struct{} // taken while a request is under way; nil: every request has a connection of its own
}

// enter waits for a stream. The caller leaves when it succeeds.
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
		TLSClientConfig:     t.tls.Clone(), // without session cache: every handshake is a whole one
		TLSHandshakeTimeout: requestTimeout,
		Protocols:           new(http.Protocols),
	}}
	protocols(l.transport.Protocols)
	l.transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		l.dialled.Add(1)
		// A Transport lets a dial outlive its request; nobody waits for this one
		// any longer than that.
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		return t.dial(ctx, network, address)
	}
	return l
}

// kept keeps one HTTP/2 connection, as every client built on client-go does,
// with its values for a connection that has gone silent. When the connection
// ends, or a GOAWAY says that it will, the Transport makes the next one and
// repeats there what the server has not begun to process (RFC 9113, 6.8). That
// is not a retry of this package: every client of Go's standard library does it.
func (t target) kept() *link {
	l := t.link(func(p *http.Protocols) { p.SetHTTP2(true) })
	l.streams = make(chan struct{}, maxStreams)
	l.transport.HTTP2 = &http.HTTP2Config{
		SendPingTimeout: 30 * time.Second,
		PingTimeout:     15 * time.Second,
	}
	return l
}

// fresh makes a new connection for every request.
func (t target) fresh() *link {
	l := t.link(func(p *http.Protocols) { p.SetHTTP1(true) })
	l.transport.DisableKeepAlives = true
	return l
}
