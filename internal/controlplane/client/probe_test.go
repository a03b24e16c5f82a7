package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
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
		{"ready", server.Client(), "/readyz", Healthy},
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
			health, err := Prober{client: c.client, url: server.URL + c.path}.probe(ctx)
			if health != c.want || (err != nil) != (c.want == "") {
				t.Errorf("%q, %v; want %q", health, err, c.want)
			}
			if output := (Prober{client: c.client, url: server.URL + c.path}).Health(ctx); output == "" || output == Healthy &&
				c.want != Healthy {
				t.Errorf("health is %q", output)
			}
		})
	}
	if _, err := (Prober{client: failing(host.ErrForwarding), url: server.URL}).probe(t.Context()); !errors.Is(err,
		host.ErrForwarding) {
		t.Errorf("sshd's refusal is not told: %v", err)
	}
}

// TestRedirectedProbe: the answer of the server that a redirection names is not the component's.
func TestRedirectedProbe(t *testing.T) {
	ready := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer ready.Close()
	server := httptest.NewServer(http.RedirectHandler(ready.URL, http.StatusFound))
	defer server.Close()
	health, err := Prober{client: announced(nil, &http.Transport{}), url: server.URL}.probe(t.Context())
	if err != nil || !strings.HasPrefix(health, "not ready: HTTP status 302") {
		t.Errorf("%q, %v", health, err)
	}
}

func TestReadAnswer(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		want   string
	}{
		{200, "ok", Healthy},
		{
			500,
			"[+]ping ok\n[-]etcd failed: reason withheld\n[-]poststarthook/rbac/bootstrap-roles failed: reason " +
				"withheld\nreadyz check failed\n",
			"not ready: etcd, poststarthook/rbac/bootstrap-roles",
		},
		{401, "Unauthorized\n", `not ready: HTTP status 401 "Unauthorized"`},
		{503, "", `not ready: HTTP status 503 ""`},
	} {
		if have := readAnswer(c.status, c.body); have != c.want {
			t.Errorf("%d %q: %q, want %q", c.status, c.body, have, c.want)
		}
	}
}
