package client

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
)

// TestAnswersAreBounded: an API server with an endless response does not exhaust memory.
func TestAnswersAreBounded(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for chunk := make([]byte, 1<<20); ; {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	client := &http.Client{Transport: bounded{transport: &http.Transport{}}}
	response, err := client.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if n, err := io.Copy(io.Discard, response.Body); err == nil || n > longestAnswer {
		t.Errorf("%d bytes were read, %v", n, err)
	}
}

// TestAroundChanges announces the requests that change something, and no read.
func TestAroundChanges(t *testing.T) {
	var calls []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		calls = append(calls, "at the server "+r.Method)
	}))
	defer server.Close()
	client := &http.Client{Transport: bounded{transport: &http.Transport{}, around: func(summary string) func() {
		calls = append(calls, "before "+summary)
		return func() { calls = append(calls, "after "+summary) }
	}}}
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPatch} {
		request, err := http.NewRequestWithContext(t.Context(), method, server.URL+"/api/v1/secrets?limit=1", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
	}
	want := []string{
		"at the server GET",
		"before POST /api/v1/secrets", "at the server POST", "after POST /api/v1/secrets",
		"before PATCH /api/v1/secrets", "at the server PATCH", "after PATCH /api/v1/secrets",
	}
	if !slices.Equal(calls, want) {
		t.Errorf("calls are %q, want %q", calls, want)
	}
}

// TestRenewedTransport: the client certificate is replaced long before it ends, and the connection with it.
func TestRenewedTransport(t *testing.T) {
	begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var renewals []time.Time
	unsigned := errors.New("no key")
	r := &renewedTransport{http: &http.Transport{}, since: begin}
	r.renew = func(now time.Time) (*http.Transport, error) {
		if len(renewals) == 2 {
			return nil, unsigned
		}
		renewals = append(renewals, now)
		return &http.Transport{}, nil
	}
	for _, c := range []struct {
		after    time.Duration
		renewals int
		err      error
	}{
		{0, 0, nil},
		{4 * time.Minute, 0, nil},
		{5 * time.Minute, 1, nil},
		{9 * time.Minute, 1, nil},
		{time.Hour, 2, nil},
		{2 * time.Hour, 2, unsigned},
	} {
		before := r.http
		now, err := r.at(begin.Add(c.after))
		if !errors.Is(err, c.err) || len(renewals) != c.renewals {
			t.Fatalf("after %s: %v, renewed at %v", c.after, err, renewals)
		}
		if renewed := len(renewals) > 0 && renewals[len(renewals)-1].Equal(begin.Add(c.after)); err == nil &&
			renewed == (now == before) {
			t.Errorf("after %s: the same connections: %v", c.after, now == before)
		}
	}
}

// TestAdminRenews: a request late in the life of the certificate is made with another one.
func TestAdminRenews(t *testing.T) {
	bundle := cptest.Bundle(t)
	access, done, err := New(nil, component.Replica{Address: "10.0.0.11", Bundle: bundle}).admin()
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	renewed, is := access.web.Transport.(bounded).transport.(*renewedTransport)
	if !is {
		t.Fatalf("%T", access.web.Transport.(bounded).transport)
	}
	first := renewed.http.TLSClientConfig
	second, err := renewed.at(time.Now().Add(6 * time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	next := second.TLSClientConfig
	if bytes.Equal(first.Certificates[0].Certificate[0], next.Certificates[0].Certificate[0]) ||
		next.ServerName != first.ServerName || next.RootCAs == nil {
		t.Error("the certificate is the same, or the server is not verified any more")
	}
}
