package client

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// TestCountNeedsConversion: objects that only a conversion webhook can read are told apart from every other failure.
func TestCountNeedsConversion(t *testing.T) {
	const message = "conversion webhook for example.com/v1beta1, Kind=CronTab failed: Post " +
		`\"https://hook.x.svc:443/convert?timeout=30s\": dial tcp 10.96.0.9:443: connect: network is unreachable`
	const wrong = http.StatusInternalServerError
	status := func(code int, message string) string {
		return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"%s","code":%d}`, message, code)
	}
	for name, c := range map[string]struct {
		code         int
		body         string
		unread, fine bool
	}{
		"counted":              {http.StatusOK, `{"metadata":{"resourceVersion":"7"},"items":[{}]}`, false, true},
		"none":                 {http.StatusNotFound, status(http.StatusNotFound, "not found"), false, true},
		"conversion":           {wrong, status(wrong, message), true, false},
		"another failure":      {wrong, status(wrong, "etcd"), false, false},
		"another status":       {http.StatusForbidden, status(http.StatusForbidden, message), false, false},
		"no status of the API": {wrong, message, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.code)
				fmt.Fprint(w, c.body)
			}))
			defer server.Close()
			s := Survey{access: adminAccess{rest: &rest.Config{Host: server.URL}, web: server.Client()}}
			_, err := s.Count(t.Context(), Resource{Name: "crontabs.example.com", Path: "/apis/example.com/v1/crontabs"}, 7)
			if (err == nil) != c.fine || errors.Is(err, ErrConversion) != c.unread {
				t.Errorf("%v", err)
			}
			if c.unread && !strings.Contains(err.Error(), "list crontabs.example.com") {
				t.Errorf("the resource is not named: %v", err)
			}
		})
	}
}
