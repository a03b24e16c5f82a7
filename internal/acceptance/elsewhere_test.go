package acceptance

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// listen starts a server that the machines can reach, on an address that is not on any of them:
// the address of Terraform in the lab's network.
func listen(t *testing.T, handler http.Handler) *httptest.Server {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(operatorAddress(), "0"))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(handler)
	server.Listener.Close()
	server.Listener = listener
	t.Cleanup(server.Close)
	return server
}

// operatorAddress is the first address of the lab's network.
func operatorAddress() string { return shared.lab.Subnet.Masked().Addr().Next().String() }

// storage simulates an object store. A client with the token may upload files, and get the newest one.
type storage struct {
	url, token, dir string
}

func newStorage(t *testing.T) *storage {
	t.Helper()
	s := &storage{token: rand.Text(), dir: t.TempDir()}
	server := listen(t, s)
	server.Start()
	s.url = server.URL
	return s
}

// ServeHTTP stores an uploaded file, once, under the last element of its path, or returns the newest one.
func (s *storage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Header.Get("Authorization") != "Bearer "+s.token:
		w.WriteHeader(http.StatusForbidden)
		return
	case r.Method == http.MethodGet:
		newest, err := s.newest()
		if err != nil {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		http.ServeFile(w, r, newest)
		return
	case r.Method != http.MethodPut:
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	content, err := io.ReadAll(r.Body)
	if err == nil {
		err = os.WriteFile(filepath.Join(s.dir, filepath.Base(r.URL.Path)), content, 0o600)
	}
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusCreated)
}

// newest returns the path of the newest file.
func (s *storage) newest() (string, error) {
	entries, err := os.ReadDir(s.dir)
	if err == nil && len(entries) == 0 {
		err = errors.New("nothing was sent")
	}
	if err != nil {
		return "", err
	}
	return filepath.Join(s.dir, entries[len(entries)-1].Name()), nil // their names begin with the time
}

// restores checks that the newest stored snapshot is complete, which etcdutl verifies by its
// digest, and that it contains the stored data: in the clear except for Secrets.
func restores(t *testing.T, s *storage) {
	snapshot, err := s.newest()
	if err != nil {
		t.Fatal(err)
	}
	etcdutl := filepath.Join(shared.components, "etcd-v"+release(t, "etcd"), "etcdutl")
	restored := filepath.Join(t.TempDir(), "restored")
	if out, err := exec.CommandContext(t.Context(), etcdutl, "snapshot", "restore", snapshot, "--data-dir="+
		restored).CombinedOutput(); err != nil {
		t.Fatalf("restore %s: %v\n%s", snapshot, err, out)
	}
	database, err := os.ReadFile(filepath.Join(restored, "member", "snap", "db"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(database, []byte(plainValue)) {
		t.Error("what was stored before the snapshot is not in it")
	}
	if bytes.Contains(database, []byte(secretValue)) ||
		bytes.Contains(database, []byte(base64.StdEncoding.EncodeToString([]byte(secretValue)))) {
		t.Error("a Secret can be read in it")
	}
}

// audience is the cluster's name at the issuer.
const audience = "kubernetes"

// loginIssuer is a minimal OpenID Connect issuer for an API server, with its own certificate.
type loginIssuer struct {
	url, authority string
	key            *ecdsa.PrivateKey
}

func newLogins(t *testing.T) loginIssuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var i loginIssuer
	server := listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { i.answer(t, w, r) }))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.ParseIP(operatorAddress())}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	server.TLS = &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{certificate}, PrivateKey: key}},
		MinVersion:   tls.VersionTLS12,
	}
	i.key, i.authority = key, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}))
	i.url = "https://" + server.Listener.Addr().String()
	server.StartTLS()
	return i
}

// answer serves the discovery document, or the keys (OpenID Connect Discovery 1.0, RFC 7517).
func (i loginIssuer) answer(t *testing.T, w http.ResponseWriter, r *http.Request) {
	var document any
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		document = map[string]any{
			"issuer": i.url, "jwks_uri": i.url + "/keys", "response_types_supported": []string{"id_token"},
			"subject_types_supported": []string{"public"}, "id_token_signing_alg_values_supported": []string{"ES256"},
		}
	case "/keys":
		public, err := i.key.PublicKey.ECDH()
		if err != nil {
			t.Error(err)
			return
		}
		point := public.Bytes() // 4, then the two coordinates
		document = map[string]any{"keys": []any{map[string]any{
			"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": "1", "x": encoded(point[1:33]),
			"y": encoded(point[33:]),
		}}}
	default:
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(document); err != nil {
		t.Error(err)
	}
}

// token returns a token for Ada, an operator (RFC 7519, signed with ES256 of RFC 7518).
func (i loginIssuer) token(t *testing.T, audience string) string {
	t.Helper()
	now := time.Now()
	text := ""
	for _, part := range []map[string]any{
		{"alg": "ES256", "kid": "1", "typ": "JWT"},
		{
			"iss": i.url, "aud": audience, "sub": "1", "email": "ada@example.com", "email_verified": true,
			"groups": []string{"operators"},
			"iat":    now.Unix(), "exp": now.Add(10 * time.Minute).Unix(),
		},
	} {
		encodedPart, err := json.Marshal(part)
		if err != nil {
			t.Fatal(err)
		}
		if text != "" {
			text += "."
		}
		text += encoded(encodedPart)
	}
	sum := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, i.key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return text + "." + encoded(append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...))
}

func encoded(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }
