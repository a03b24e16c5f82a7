package client

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
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
	client := &http.Client{Transport: bounded{Transport: &http.Transport{}}}
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
	client := &http.Client{Transport: bounded{Transport: &http.Transport{}, around: func(summary string) func() {
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
