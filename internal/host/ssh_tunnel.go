package host

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"

	"golang.org/x/crypto/ssh"
)

// ServingChain returns the certificate chain, leaf first, that a TLS server at addr presents to
// a client on the machine. The chain is not verified, and no data is sent. A server may end the
// handshake because there is no client certificate, after it has presented its own; then both a
// chain and an error are returned.
func (h *Host) ServingChain(ctx context.Context, addr string) (chain []*x509.Certificate, err error) {
	connection, err := h.Dial(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	client := tls.Client(connection, &tls.Config{
		MinVersion: tls.VersionTLS12, InsecureSkipVerify: true, //nolint:gosec // only reads the chain
		VerifyConnection: func(state tls.ConnectionState) error {
			chain = state.PeerCertificates
			return nil
		},
	})
	if err := client.HandshakeContext(ctx); err != nil {
		return chain, fmt.Errorf("TLS with %s from %s: %w", addr, h.Address(), err)
	}
	return chain, nil
}

// ErrCertificateRefused means that a TLS server does not accept the certificate of its client.
var ErrCertificateRefused = errors.New("the certificate is refused")

// PresentCertificate connects from the machine to a TLS server that serves HTTP at addr, with a client certificate. It
// returns nil if the server accepts the certificate, and ErrCertificateRefused if it does not. The server is not
// verified.
func (h *Host) PresentCertificate(ctx context.Context, addr string, certificate tls.Certificate) error {
	connection, err := h.Dial(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer connection.Close()
	defer context.AfterFunc(ctx, func() { _ = connection.Close() })()
	client := tls.Client(connection, &tls.Config{
		MinVersion: tls.VersionTLS12, InsecureSkipVerify: true, //nolint:gosec // only the answer to the certificate counts
		// Also if the server does not name the authority of the certificate: it may know the one that has cross-signed it.
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &certificate, nil },
	})
	err = client.HandshakeContext(ctx)
	if err == nil {
		// With TLS 1.3, the server reads the certificate after the handshake of the client has ended. An HTTP server says
		// nothing before it is asked. The answer to a certificate may arrive before the request is written.
		_, _ = io.WriteString(client, "GET /version HTTP/1.0\r\n\r\n")
		if _, err = client.Read(make([]byte, 1)); errors.Is(err, io.EOF) {
			err = nil // a server that refuses says so
		}
	}
	var alert *net.OpError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &alert) && alert.Op == "remote error":
		return fmt.Errorf("TLS with %s from %s: %w: %w", addr, h.Address(), ErrCertificateRefused, alert.Err)
	}
	return fmt.Errorf("TLS with %s from %s: %w", addr, h.Address(), cmp.Or(ctx.Err(), err))
}

// Dial opens a TCP connection from the machine to addr ("127.0.0.1:2379") inside the SSH
// connection (direct-tcpip). It honours ctx. ErrRefused and ErrForwarding are answers of the
// machine.
func (h *Host) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if network != "tcp" && network != "tcp4" && network != "tcp6" {
		return nil, fmt.Errorf("dial %s from %s: network %q is not TCP", addr, h.Address(), network)
	}
	if err := checkDialAddress(addr); err != nil {
		return nil, fmt.Errorf("dial %q from %s: %w", addr, h.Address(), err)
	}
	m, err := h.pool.machine(h.Address())
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", addr, err)
	}
	conn, err := h.pool.tunnel(ctx, m, addr)
	if err != nil {
		return nil, fmt.Errorf("dial %s from %s: %w", addr, h.Address(), classifyDialError(err))
	}
	return conn, nil
}

func checkDialAddress(addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	if number, err := strconv.Atoi(port); err != nil || checkPort("port", number) != nil || number == 0 {
		return fmt.Errorf("%q is not a TCP port", port)
	}
	return nil
}

// tunnel opens a TCP connection from m. If the SSH connection turns out to be dead, it is
// reopened once. Every other failure is an answer of m.
func (p *Pool) tunnel(ctx context.Context, m *machine, addr string) (net.Conn, error) {
	for attempt := 0; ; attempt++ {
		via, err := p.connect(ctx, m)
		if err != nil {
			return nil, err
		}
		conn, err := via.dial(ctx, addr)
		var early *errNotStarted
		if attempt == 0 && errors.As(err, &early) {
			continue
		}
		return conn, err
	}
}

// dial is limited by ctx alone. The machine may need time to reach a third one, so a missing
// answer does not mean that the connection is dead.
func (c *connection) dial(ctx context.Context, addr string) (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	dialled := make(chan result, 1)
	go func() {
		conn, err := c.client.Dial("tcp", addr)
		dialled <- result{conn, err}
	}()
	select {
	case r := <-dialled:
		var refused *ssh.OpenChannelError
		if r.err != nil && !errors.As(r.err, &refused) {
			_ = c.drop()
			return nil, &errNotStarted{c.lossError()}
		}
		if r.err != nil {
			return nil, &serverError{r.err}
		}
		return r.conn, nil
	case <-ctx.Done():
		go func() {
			if r := <-dialled; r.err == nil {
				_ = r.conn.Close()
			}
		}()
		return nil, ctx.Err()
	}
}
