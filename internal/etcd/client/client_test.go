package client

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"testing"
	"time"
)

// TestUnreachable verifies that a call to a member that cannot be dialled fails
// immediately.
func TestUnreachable(t *testing.T) {
	refused := errors.New("connection refused")
	c := New(&tls.Config{MinVersion: tls.VersionTLS12}, func(context.Context, string) (net.Conn, error) {
		return nil, refused
	})
	defer c.Close()
	for range 3 {
		begin := time.Now()
		_, err := c.MemberList(t.Context(), "10.0.0.1")
		if took := time.Since(begin); took > RequestTimeout/2 || !unavailable(err) || !Transient(err) {
			t.Errorf("after %s: %v", took, err)
		}
	}
}
