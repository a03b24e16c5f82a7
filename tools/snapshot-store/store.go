package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// store is the part of a bucket that belongs to one cluster.
type store struct {
	config
	client *minio.Core
	server *serverClock
	notes  io.Writer
	// etcdCluster is etcd's ID of the cluster whose newest snapshot is wanted; "": that of any one.
	etcdCluster string
}

// Each request is repeated if the server is overloaded or the connection fails: for about a
// minute, with growing random pauses. The timer's next run tries again.
const (
	attempts   = 8
	firstPause = 500 * time.Millisecond
	maxPause   = 20 * time.Second
	// silence ends a connection on which nothing moves.
	silence = 2 * time.Minute
)

// open connects to nothing yet.
func open(c config, notes io.Writer) (*store, error) {
	value, err := readCredentials(c.CredentialsFile)
	if err != nil {
		return nil, err
	}
	minio.DefaultRetryUnit, minio.DefaultRetryCap = firstPause, maxPause
	transport, err := c.transport()
	if err != nil {
		return nil, err
	}
	server := &serverClock{next: transport}
	endpoint, err := url.Parse(c.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("endpoint: %w", err)
	}
	client, err := minio.NewCore(endpoint.Host, &minio.Options{
		Creds:  credentials.NewStatic(value.AccessKeyID, value.SecretAccessKey, value.SessionToken, value.SignerType),
		Secure: endpoint.Scheme == "https", Region: c.Region, Transport: server, MaxRetries: attempts,
	})
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", c.Endpoint, err)
	}
	client.SetAppInfo("kube-snapshot-store", version)
	return &store{config: c, client: client, server: server, notes: notes}, nil
}

// transport returns connections that verify the server and that end when nothing moves. A proxy is
// taken from the environment.
func (c config) transport() (*http.Transport, error) {
	dialer := &net.Dialer{Timeout: 15 * time.Second, KeepAlive: 15 * time.Second}
	t := &http.Transport{
		Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute,
		TLSHandshakeTimeout: 15 * time.Second, ExpectContinueTimeout: 10 * time.Second, DisableCompression: true,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return movingConn{conn}, nil
		},
	}
	if c.CACertificate != "" {
		t.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM([]byte(c.CACertificate)) {
			return nil, errors.New("ca_certificate has no certificate")
		}
	}
	return t, nil
}

// movingConn fails if nothing can be read or written for a while.
type movingConn struct{ net.Conn }

func (c movingConn) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(silence)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

func (c movingConn) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(silence)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// serverClock notes the server's time, which says how wrong this machine's is, and limits its answers.
type serverClock struct {
	next http.RoundTripper

	mu      sync.Mutex
	offset  time.Duration // of the server's clock from this one
	noticed bool
}

// now returns the time by this clock or by the server's, whichever is later.
func (s *serverClock) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Add(max(0, s.offset))
}

// RoundTrip sends a request.
func (s *serverClock) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := s.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if at, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		s.mu.Lock()
		s.offset, s.noticed = time.Until(at), true
		s.mu.Unlock()
	}
	limitAnswer(r, resp)
	return resp, nil
}

// locate asks the server for the region, if none is configured. The client does that with its first
// request, and does not repeat it.
func (s *store) locate(ctx context.Context) error {
	if s.Region != "" {
		return nil
	}
	for attempt := 1; ; attempt++ {
		_, err := s.client.GetBucketLocation(ctx, s.Bucket)
		var answer minio.ErrorResponse
		if err == nil || attempt == attempts || errors.As(err, &answer) && !busy(answer) {
			if err != nil {
				return failed(err, "the bucket's region is unknown")
			}
			return nil
		}
		select {
		case <-time.After(min(minio.DefaultRetryCap, minio.DefaultRetryUnit<<attempt)):
		case <-ctx.Done():
			return fmt.Errorf("ask for the region: %w", ctx.Err())
		}
	}
}

// note tells something that is no failure.
func (s *store) note(format string, args ...any) { _, _ = fmt.Fprintf(s.notes, format+"\n", args...) }
