package client

import (
	"io"
	"net/http"
	"net/http/httptest"
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
	client := &http.Client{Transport: bounded{&http.Transport{}}}
	response, err := client.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if n, err := io.Copy(io.Discard, response.Body); err == nil || n > longestAnswer {
		t.Errorf("%d bytes were read, %v", n, err)
	}
}
