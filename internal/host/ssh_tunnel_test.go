package host

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// TestPresentCertificate distinguishes a server that refuses a client's certificate from one that does not answer, with
// both versions of TLS: in 1.3, the server judges it after the handshake of the client has ended.
func TestPresentCertificate(t *testing.T) {
	_, h := newMachine(t)
	trusted, stranger := clientCertificate(t), clientCertificate(t)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		server := httptest.NewUnstartedServer(http.NotFoundHandler())
		pool := x509.NewCertPool()
		pool.AddCert(trusted.Leaf)
		server.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool, MaxVersion: version}
		server.StartTLS()
		t.Cleanup(server.Close)
		addr := server.Listener.Addr().String()
		if err := h.PresentCertificate(t.Context(), addr, trusted); err != nil {
			t.Errorf("%s: accepted: %v", tls.VersionName(version), err)
		}
		if err := h.PresentCertificate(t.Context(), addr, stranger); !errors.Is(err, ErrCertificateRefused) {
			t.Errorf("%s: refused: %v", tls.VersionName(version), err)
		}
		server.Close()
		if err := h.PresentCertificate(t.Context(), addr, trusted); err == nil || errors.Is(err, ErrCertificateRefused) {
			t.Errorf("%s: no process listens: %v", tls.VersionName(version), err)
		}
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	go func() { // as a balancer without a server
		for {
			connection, err := silent.Accept()
			if err != nil {
				return
			}
			_ = connection.Close()
		}
	}()
	err = h.PresentCertificate(t.Context(), silent.Addr().String(), trusted)
	if err == nil || errors.Is(err, ErrCertificateRefused) {
		t.Errorf("the connection is closed at once: %v", err)
	}
}

// clientCertificate returns a certificate that is its own authority.
func clientCertificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "client"}, NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}
