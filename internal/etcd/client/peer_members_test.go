package client

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestPeerMembers: what a member tells its peers is data. Names and URLs get the forms of a member list, and nothing
// leads the question to another place.
func TestPeerMembers(t *testing.T) {
	asked, answer := 0, http.HandlerFunc(nil)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		answer(w, r)
	}))
	defer server.Close()
	c := New(&tls.Config{InsecureSkipVerify: true}, //nolint:gosec // the stand-in's certificate
		func(ctx context.Context, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", server.Listener.Addr().String())
		})
	says := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) }
	}
	answer = says(`[{"id":7,"name":"cp1\n'$(reboot)","peerURLs":["https://10.0.0.1:2380","https://a;b:2380","x\ny"]},` +
		`{"id":8,"name":"cp2","peerURLs":["https://10.0.0.2:2380"],"isLearner":true}]`)
	v, err := c.PeerMembers(t.Context(), "10.0.0.1")
	if err != nil || len(v.Voters()) != 1 || len(v.Learners()) != 1 || len(v.Voters()[0].PeerURLs) != 1 ||
		strings.Contains(v.Voters()[0].Name, "\n") {
		t.Errorf("%+v, %v", v, err)
	}
	for name, hostile := range map[string]http.HandlerFunc{
		"no list":       says(`{"id":7}`),
		"another type":  says(`[{"id":"7"}]`),
		"too long":      says("[" + strings.Repeat(`{"id":7},`, maxAnswer/9+1) + `{"id":7}]`),
		"nothing":       says(""),
		"a redirection": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) },
	} {
		asked, answer = 0, hostile
		if v, err := c.PeerMembers(t.Context(), "10.0.0.1"); err == nil || asked != 1 {
			t.Errorf("%s: %d members, %d requests", name, len(v.Members), asked)
		}
	}
}
