package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// TestProbe distinguishes the answers of an API server from the absence of one.
func TestProbe(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/slow":
			<-r.Context().Done()
		case "/cut":
			panic(http.ErrAbortHandler)
		case "/down":
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprint(w, "[-]etcd failed: reason withheld\n")
		}
	}))
	defer server.Close()
	failing := func(err error) *http.Client {
		return &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			return nil, fmt.Errorf("dial 10.0.0.11:6443 from 10.0.0.11: %w", err)
		}}}
	}
	for _, c := range []struct {
		name   string
		client *http.Client
		path   string
		want   string // "" if it cannot be probed
	}{
		{"ready", server.Client(), "/readyz", healthy},
		{"not ready", server.Client(), "/down", "not ready: etcd"},
		{"nobody listens", failing(host.ErrRefused), "/readyz", "does not answer: connection refused"},
		{"sshd forbids it", failing(host.ErrForwarding), "/readyz", ""},
		{"the machine is lost", failing(host.ErrUnreachable), "/readyz", ""},
		{"no answer in time", server.Client(), "/slow", ""},
		{"the connection breaks off", server.Client(), "/cut", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			health, err := checker{client: c.client, url: server.URL + c.path}.probe(ctx)
			if health != c.want || (err != nil) != (c.want == "") {
				t.Errorf("%q, %v; want %q", health, err, c.want)
			}
			if said := (checker{client: c.client, url: server.URL + c.path}).ask(ctx); said == "" || said == healthy && c.want != healthy {
				t.Errorf("in words: %q", said)
			}
		})
	}
	if _, err := (checker{client: failing(host.ErrForwarding), url: server.URL}).probe(t.Context()); !errors.Is(err, host.ErrForwarding) {
		t.Errorf("sshd's refusal is not told: %v", err)
	}
}
