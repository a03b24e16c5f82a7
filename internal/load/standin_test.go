package load

import (
	"cmp"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	core "k8s.io/api/core/v1"
)

// standIn replaces kube-apiserver in tests that need to know exactly what went wrong, and how
// often: TLS with HTTP/2, ConfigMaps of one namespace, watches. Tests on lab machines use the
// real one.
type standIn struct {
	t      *testing.T
	server *httptest.Server

	// disturb may answer a client's request n (1, 2, ...) itself.
	disturb func(n int64, w http.ResponseWriter, r *http.Request) (answered bool)
	// streamLength ends every stream after this many events; 0: never.
	streamLength int
	streams      int // allowed per connection; 0: as many as kube-apiserver allows
	number       atomic.Int64

	mu      sync.Mutex
	written []written
	changed chan struct{} // closed and replaced by every write
}

type written struct {
	name     string
	revision int
}

// testRate is half of the default, for computers that are busy with other packages' tests.
const testRate = 25

// firstRevision is the first revision of the stand-in.
const firstRevision = 100

func newStandIn(t *testing.T, set func(*standIn)) *standIn {
	s := &standIn{t: t, changed: make(chan struct{})}
	if set != nil {
		set(s)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v1/namespaces", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusConflict)
	})
	const configMaps = "/api/v1/namespaces/" + namespace + "/configmaps"
	mux.HandleFunc("POST "+configMaps, s.disturbed(s.create))
	mux.HandleFunc("GET "+configMaps+"/{name}", s.disturbed(s.get))
	mux.HandleFunc("GET "+configMaps, s.list)
	mux.HandleFunc("DELETE "+configMaps, func(http.ResponseWriter, *http.Request) {})
	s.server = httptest.NewUnstartedServer(mux)
	s.server.EnableHTTP2 = true
	s.server.Config.ErrorLog = log.New(io.Discard, "", 0)                                   // of closed connections
	s.server.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: cmp.Or(s.streams, 100)} // kube-apiserver's default
	s.server.StartTLS()
	t.Cleanup(s.server.Close)
	return s
}

func (s *standIn) config() Config {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.server.Certificate().Raw})
	text, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "it",
		"clusters": []any{map[string]any{"name": "it", "cluster": map[string]any{
			"server":                     s.server.URL,
			"certificate-authority-data": ca,
		}}},
		"contexts": []any{map[string]any{"name": "it", "context": map[string]any{"cluster": "it", "user": "it"}}},
		"users":    []any{map[string]any{"name": "it", "user": map[string]any{}}},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	criteria := Unnoticed()
	criteria.Rate = testRate
	return Config{Kubeconfig: string(text), Criteria: criteria}
}

func (s *standIn) disturbed(answer http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		n := s.number.Add(1)
		if s.disturb == nil || !s.disturb(n, w, r) {
			answer(w, r)
		}
	}
}

func (s *standIn) create(w http.ResponseWriter, r *http.Request) {
	var object core.ConfigMap
	if err := json.NewDecoder(r.Body).Decode(&object); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written = append(s.written, written{object.Name, firstRevision + len(s.written) + 1})
	close(s.changed)
	s.changed = make(chan struct{})
	w.WriteHeader(http.StatusCreated)
}

func (s *standIn) get(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.ContainsFunc(s.written, func(o written) bool { return o.name == r.PathValue("name") }) {
		w.WriteHeader(http.StatusNotFound)
	}
}

func (s *standIn) list(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("watch") != "" {
		s.watch(w, r)
		return
	}
	// Pages of three, so that the next page is requested.
	from, _ := strconv.Atoi(cmp.Or(r.URL.Query().Get("continue"), "0"))
	s.mu.Lock()
	defer s.mu.Unlock()
	until, next := min(from+3, len(s.written)), ""
	if until < len(s.written) {
		next = strconv.Itoa(until)
	}
	var items []string
	for _, o := range s.written[from:until] {
		items = append(items, fmt.Sprintf(`{"metadata":{"name":%q}}`, o.name))
	}
	fmt.Fprintf(w, `{"metadata":{"resourceVersion":"%d","continue":%q},"items":[%s]}`,
		firstRevision+len(s.written), next, strings.Join(items, ","))
}

func (s *standIn) watch(w http.ResponseWriter, r *http.Request) {
	after, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	for sent := 0; ; {
		s.mu.Lock()
		news, changed := s.written[after-firstRevision:], s.changed
		s.mu.Unlock()
		for _, o := range news {
			fmt.Fprintf(w, `{"type":"ADDED","object":{"metadata":{"name":%q,"resourceVersion":"%d"}}}`+"\n", o.name, o.revision)
			after, sent = o.revision, sent+1
		}
		w.(http.Flusher).Flush()
		if s.streamLength > 0 && sent >= s.streamLength {
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}
