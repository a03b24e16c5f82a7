package client

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// TestHandshakes: what a server at the address of a member answers to a handshake is that of a member, or of another
// service.
func TestHandshakes(t *testing.T) {
	const valid, expired = 0, -2 * time.Minute // when it was issued, for a minute
	bundle, certificate := authority(t)
	_, strange := authority(t)
	config, err := TLS(bundle, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	pair := func(c tls.Certificate) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{c}, MinVersion: tls.VersionTLS12}
	}
	mutual := pair(certificate("10.0.0.1", valid))
	mutual.ClientAuth = tls.RequireAndVerifyClientCert // by the roots of the system, which do not know the client
	old := pair(certificate("10.0.0.1", expired))
	old.MaxVersion = tls.VersionTLS12
	unreadable := &tls.Config{MinVersion: tls.VersionTLS12}
	unreadable.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		return nil, errors.New("open server.crt: no such file or directory")
	}
	for name, c := range map[string]struct {
		server *tls.Config
		bytes  string // of a server without TLS
		want   bool
	}{
		"a member":                            {server: pair(certificate("10.0.0.1", valid)), want: true},
		"its certificate has expired":         {server: pair(certificate("10.0.0.1", expired)), want: true},
		"the same, and it speaks TLS 1.2":     {server: old, want: true},
		"a certificate of another name":       {server: pair(certificate("10.0.0.2", valid)), want: true},
		"it refuses the client":               {server: mutual, want: true},
		"it cannot read its certificate":      {server: unreadable, want: true},
		"of another cluster":                  {server: pair(strange("10.0.0.1", valid))},
		"of another cluster, and has expired": {server: pair(strange("10.0.0.1", expired))},
		"SSH":                                 {bytes: "SSH-2.0-OpenSSH_9.6\r\n"},
		"HTTP without TLS":                    {bytes: "HTTP/1.1 400 Bad Request\r\n\r\n"},
		"a frozen process":                    {},
	} {
		t.Run(name, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				defer func() { _ = conn.Close() }()
				if c.server != nil {
					_ = tls.Server(conn, c.server).Handshake()
				}
				_, _ = conn.Write([]byte(c.bytes))
				_, _ = io.Copy(io.Discard, conn) // until the client gives up
			}()
			clients := New(config, func(ctx context.Context, addr string) (net.Conn, error) {
				if addr != "10.0.0.1:2379" {
					t.Errorf("%s is dialled", addr)
				}
				return new(net.Dialer).DialContext(ctx, "tcp", listener.Addr().String())
			})
			if c.server == nil && c.bytes == "" {
				clients.Limit = 200 * time.Millisecond
			}
			if got := clients.Handshakes(t.Context(), "10.0.0.1"); got != c.want {
				t.Errorf("answers: %t", got)
			}
			_ = listener.Close()
			<-ended
		})
	}
}

// authority returns a bundle, and what issues the certificate of a server.
func authority(t *testing.T) (*pki.Bundle, func(address string, issued time.Duration) tls.Certificate) {
	t.Helper()
	b, err := pki.Generate(pki.Options{ClusterName: "prod", Algorithm: pki.ECDSAP256, Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	return b, func(address string, issued time.Duration) tls.Certificate {
		pair, err := b.Issue(pki.EtcdServer("cp1", address), time.Now().Add(issued), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		certificate, err := tls.X509KeyPair([]byte(pair.Certificate), []byte(pair.PrivateKey))
		if err != nil {
			t.Fatal(err)
		}
		return certificate
	}
}
