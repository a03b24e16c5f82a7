package load

import (
	"context"
	"net"
	"testing"
	"time"
)

// TestKeptPeer: the certificate is that of the server of the kept connection, and asking opens no other connection.
func TestKeptPeer(t *testing.T) {
	s := newStandIn(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l, err := Start(ctx, s.config())
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := l.KeptPeer(ctx)
	if err != nil || !certificate.Equal(s.server.Certificate()) {
		t.Errorf("%v, %v", certificate, err)
	}
	report, err := l.Stop(ctx)
	if err != nil || report.Clients[0].Name != "kept" || report.Clients[0].Dialled != 1 {
		t.Errorf("%+v, %v", report.Clients, err)
	}

	config := s.config()
	config.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed }
	unconnected, err := prepare(config.complete())
	if err != nil {
		t.Fatal(err)
	}
	defer unconnected.close()
	if certificate, err := unconnected.KeptPeer(ctx); err == nil {
		t.Errorf("without a connection: %v", certificate)
	}
}
