package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

const (
	access  = "AKIATESTACCESS"
	secret  = "test-secret-0123456789abcdef"
	cluster = "0123456789abcdef0123456789abcdef"
	bucket  = "backups"
)

// server is versitygw, a real S3 server, behind a proxy with faults.
type server struct {
	t      *testing.T
	url    string
	root   string // where it keeps its objects
	client *minio.Client
	fault  atomic.Pointer[fault]
}

// fault handles a request instead of the server. It returns false to let the request pass, which it
// may have changed.
type fault func(w http.ResponseWriter, r *http.Request) bool

// versitygw returns the path of the program, which is built once for all tests.
var versitygw = sync.OnceValues(func() (string, error) {
	build := exec.Command("go", "run", "./cmd/kube-lab", "build", "versitygw")
	build.Dir = filepath.Join("..", "..")
	build.Stderr = os.Stderr
	out, err := build.Output()
	return strings.TrimSpace(string(out)), err
})

// newServer starts an S3 server with a bucket.
func newServer(t *testing.T, locking bool) *server {
	t.Helper()
	program, err := versitygw()
	if err != nil {
		t.Fatalf("build versitygw: %v", err)
	}
	dir := t.TempDir()
	s := &server{t: t, root: filepath.Join(dir, "objects")}
	for _, sub := range []string{"objects", "versions", "attributes"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	address := freeAddress(t)
	args := []string{
		"--port", address, "--access", access, "--secret", secret, "--quiet", "posix", "--sidecar", dir + "/attributes",
	}
	if locking {
		args = append(args, "--versioning-dir", dir+"/versions")
	}
	var log bytes.Buffer
	gateway := exec.Command(program, append(args, s.root)...)
	gateway.Stdout, gateway.Stderr = &log, &log
	if err := gateway.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = gateway.Process.Kill()
		_ = gateway.Wait()
		if t.Failed() {
			t.Logf("versitygw:\n%s", log.String())
		}
	})
	s.client, err = minio.New(address, &minio.Options{
		Creds: credentials.NewStaticV4(access, secret, ""), Region: "us-east-1",
	})
	if err != nil {
		t.Fatal(err)
	}
	s.waitUntilServing(locking)
	s.url = s.proxy(address)
	return s
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// waitUntilServing creates the bucket as soon as the server answers.
func (s *server) waitUntilServing(locking bool) {
	s.t.Helper()
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if err = s.client.MakeBucket(s.t.Context(), bucket, minio.MakeBucketOptions{ObjectLocking: locking}); err == nil {
			return
		}
	}
	s.t.Fatalf("no bucket: %v", err)
}

// proxy returns the URL of a proxy that has the faults.
func (s *server) proxy(address string) string {
	forward := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: address})
	forward.ErrorLog = nil
	forward.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { cut(w) }
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f := s.fault.Load(); f != nil && (*f)(w, r) {
			return
		}
		forward.ServeHTTP(w, r)
	}))
	s.t.Cleanup(front.Close)
	return front.URL
}

// with sets a fault until the end of f.
func (s *server) with(fail fault, f func()) {
	s.fault.Store(&fail)
	defer s.fault.Store(nil)
	f()
}

// cut ends the connection of a request.
func cut(w http.ResponseWriter) {
	if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
		_ = conn.Close()
	}
}

// busyAnswer is what S3 answers when it has too many requests.
func busyAnswer(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = io.WriteString(w, `<?xml version="1.0"?><Error><Code>SlowDown</Code>`+
		`<Message>Reduce your request rate.</Message></Error>`)
}

// isPart reports whether a request uploads a part of a snapshot.
func isPart(r *http.Request) bool {
	return r.Method == http.MethodPut && r.URL.Query().Get("partNumber") != ""
}

// config returns a configuration for the server, with an identity that opens what it encrypts.
func (s *server) config(change ...func(*config)) (config, *age.X25519Identity) {
	s.t.Helper()
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		s.t.Fatal(err)
	}
	c := config{
		Endpoint: s.url, Region: "us-east-1", Bucket: bucket, Prefix: "etcd/prod", Cluster: cluster, ClusterName: "prod",
		CredentialsFile: s.credentials(access, secret), Recipients: []string{identity.Recipient().String()}, Kept: 3,
	}
	c.recipients = []age.Recipient{identity.Recipient()}
	for _, f := range change {
		f(&c)
	}
	return c, identity
}

func (s *server) credentials(access, secret string) string {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "credentials")
	text := fmt.Sprintf("[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n", access, secret)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return file
}

// opened returns a store with short pauses.
func opened(t *testing.T, c config) *store {
	t.Helper()
	st, err := open(c, testNotes{t})
	if err != nil {
		t.Fatal(err)
	}
	minio.DefaultRetryUnit, minio.DefaultRetryCap, pause = time.Millisecond, 10*time.Millisecond, time.Millisecond
	return st
}

type testNotes struct{ t *testing.T }

func (n testNotes) Write(p []byte) (int, error) {
	n.t.Logf("note: %s", bytes.TrimSpace(p))
	return len(p), nil
}

// writeSnapshot writes what has the form of a snapshot: pages and their digest.
func writeSnapshot(t *testing.T, name string, size int) string {
	t.Helper()
	content := make([]byte, size/page*page)
	_, _ = rand.Read(content)
	copy(content, "plain text of a Secret")
	sum := sha256.Sum256(content)
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, append(content, sum[:]...), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// name returns the name of the n-th snapshot, each an hour after the one before.
func name(n int) string {
	return time.Date(2026, 1, 1, n, 0, 0, 0, time.UTC).Format("20060102T150405Z") + "-cp1.db"
}

func mustPut(t *testing.T, st *store, file string) manifest {
	t.Helper()
	m, err := st.put(t.Context(), file)
	if err = st.explain(err); err != nil {
		t.Fatalf("put: %v", err)
	}
	return m
}

func wantError(t *testing.T, what string, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: the error is %v, want one with %q", what, err, want)
	}
	if err != nil && (strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "AGE-SECRET-KEY")) {
		t.Errorf("%s: the error shows a secret: %v", what, err)
	}
}

// keys returns the keys in the bucket.
func (s *server) keys(ctx context.Context) []string {
	var keys []string
	for o := range s.client.ListObjects(ctx, bucket, minio.ListObjectsOptions{Recursive: true}) {
		if o.Err != nil {
			s.t.Fatal(o.Err)
		}
		keys = append(keys, o.Key)
	}
	return keys
}
