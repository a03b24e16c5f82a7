package simulated

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// Ports of a control plane's components.
const (
	etcdPort              = 2379
	apiPort               = 6443
	controllerManagerPort = 10257
	schedulerPort         = 10259
	proxyServerPort       = 8134 // of its health
)

// unitAt maps a port to the unit that listens on it.
var unitAt = map[int]string{
	etcdPort: "etcd.service", apiPort: "kube-apiserver.service",
	controllerManagerPort: "kube-controller-manager.service", schedulerPort: "kube-scheduler.service",
	proxyServerPort: "kube-konnectivity-server.service",
}

func (m *machine) listens(port int) bool {
	name, known := unitAt[port]
	return known && m.active(name)
}

// servers are the servers of one machine that were used, by port.
type servers struct {
	mu     sync.Mutex
	byPort map[int]*inbox
	stops  []func()
}

// accept passes a connection to the server of a port. The first connection creates the server.
func (s *servers) accept(m *machine, port int, conn net.Conn) {
	s.mu.Lock()
	if s.byPort == nil {
		s.byPort = map[int]*inbox{}
	}
	box, there := s.byPort[port]
	if !there {
		box = &inbox{conns: make(chan net.Conn), closed: make(chan struct{}), address: conn.LocalAddr()}
		s.byPort[port] = box
		s.stops = append(s.stops, m.serveAt(port, box))
	}
	s.mu.Unlock()
	box.put(conn)
}

func (s *servers) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, stop := range s.stops {
		stop()
	}
}

// serveAt serves the component of a port, and returns how to stop it.
func (m *machine) serveAt(port int, box *inbox) (stop func()) {
	if port == etcdPort {
		server := grpc.NewServer(grpc.Creds(credentials.NewTLS(m.pair("/etc/kubernetes/pki/etcd/server", "h2"))))
		registerEtcd(server, m)
		go func() { _ = server.Serve(box) }()
		return server.Stop
	}
	if port == proxyServerPort {
		server := &http.Server{Handler: http.HandlerFunc(m.answerProxyServer), ReadHeaderTimeout: time.Minute}
		go func() { _ = server.Serve(box) }()
		return func() { _ = server.Close() }
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{m.fleet.own}}
	if port == apiPort {
		config = m.pair("/etc/kubernetes/pki/apiserver", "http/1.1")
	}
	server := &http.Server{Handler: http.HandlerFunc(answerHTTP), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(tls.NewListener(box, config)) }()
	return func() { _ = server.Close() }
}

// pair serves with a certificate and key that the provider wrote.
func (m *machine) pair(at, protocol string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{protocol},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			pair, err := tls.X509KeyPair([]byte(m.content(at+".crt")), []byte(m.content(at+".key")))
			return &pair, err
		},
	}
}

// answerHTTP answers requests to the components: readiness and, for an API server, the
// administrators' binding and the nodes.
func answerHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodPost:
		w.Header().Set("Content-Type", r.Header.Get("Content-Type")) // the created object equals the request
		w.WriteHeader(http.StatusCreated)
		_, _ = io.Copy(w, r.Body)
	case strings.HasPrefix(r.URL.Path, "/api/v1/nodes"):
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"NodeList","apiVersion":"v1","metadata":{},"items":[]}`)
	case r.URL.Path == "/readyz", r.URL.Path == "/healthz", r.URL.Path == "/livez", r.URL.Path == "/metrics":
		_, _ = io.WriteString(w, "ok")
	default:
		http.NotFound(w, r)
	}
}

// answerProxyServer answers as a proxy server, which is ready while it has an agent.
func (m *machine) answerProxyServer(w http.ResponseWriter, r *http.Request) {
	if connected := m.agents.Load(); r.URL.Path == "/readyz" && (connected == nil || !(*connected)()) {
		http.Error(w, "no agent", http.StatusInternalServerError)
		return
	}
	answerHTTP(w, r)
}

// inbox is a net.Listener of connections that are passed to it.
type inbox struct {
	conns   chan net.Conn
	closed  chan struct{}
	once    sync.Once
	address net.Addr
}

func (b *inbox) put(conn net.Conn) {
	select {
	case b.conns <- conn:
	case <-b.closed:
		_ = conn.Close()
	}
}

// Accept implements net.Listener.
func (b *inbox) Accept() (net.Conn, error) {
	select {
	case conn := <-b.conns:
		return conn, nil
	case <-b.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (b *inbox) Close() error {
	b.once.Do(func() { close(b.closed) })
	return nil
}

// Addr implements net.Listener.
func (b *inbox) Addr() net.Addr { return b.address }

// selfSigned returns a certificate as a component generates for itself.
func selfSigned() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour),
		DNSNames: []string{"localhost"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
