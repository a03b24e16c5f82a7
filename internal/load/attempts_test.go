package load

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/stats"
)

// TestRepeated: an HTTP/2 server sends GOAWAY and drops the requests that follow on the connection.
// Go's library sends them again on another one, so none fails for the caller, and they are counted.
func TestRepeated(t *testing.T) {
	const after = 20
	held := newHold()
	s := newStandIn(t, func(s *standIn) {
		s.disturb = func(n int64, w http.ResponseWriter, r *http.Request) bool {
			if n >= after && r.ProtoMajor == 2 && held.begin() { // the client does not receive what follows
				w.Header().Set("Connection", "close") // becomes a GOAWAY
				time.AfterFunc(500*time.Millisecond, held.end)
			}
			return false
		}
	})
	cfg := s.config()
	cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		return heldConn{c, held}, err
	}
	report := s.during(cfg, 100)
	if broken := Verdict(report, generous()); len(broken) > 0 {
		t.Errorf("nothing was lost, and the report says:\n%s", strings.Join(broken, "\n"))
	}
	kept, fresh := report.Clients[0], report.Clients[1]
	if kept.All.Repeated == 0 || kept.All.Repeated != kept.Reads.Repeated+kept.Writes.Repeated {
		t.Errorf("kept: %s; reads: %s; writes: %s", kept.All, kept.Reads, kept.Writes)
	}
	if fresh.All.Repeated != 0 { // each request has a new connection
		t.Errorf("fresh: %s", fresh.All)
	}
	if got := int64(report.Tried()); got != s.number.Load() {
		t.Errorf("%d requests reported, %d were processed", got, s.number.Load())
	}
}

// hold stops the reads of connections for a while, once.
type hold struct {
	begun atomic.Bool
	over  chan struct{}
	once  sync.Once
}

func newHold() *hold { return &hold{over: make(chan struct{})} }

func (h *hold) begin() bool { return !h.begun.Swap(true) }
func (h *hold) end()        { h.once.Do(func() { close(h.over) }) }

// heldConn returns nothing to its reader while the hold lasts.
type heldConn struct {
	net.Conn
	hold *hold
}

// Read implements net.Conn. What has been read is held back too.
func (c heldConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.hold.begun.Load() {
		<-c.hold.over
	}
	return n, err
}

// TestAttemptsOfCalls: gRPC reports each attempt of a call to its stats.Handler.
func TestAttemptsOfCalls(t *testing.T) {
	ctx, tries := countAttempts(t.Context())
	var handler attemptStats
	for _, s := range []stats.RPCStats{&stats.Begin{}, &stats.OutHeader{}, &stats.End{}} {
		handler.HandleRPC(handler.TagRPC(ctx, nil), s)
	}
	if tries.outcome(nil).repeated {
		t.Error("one attempt is not repeated")
	}
	handler.HandleRPC(ctx, &stats.Begin{IsTransparentRetryAttempt: true})
	if !tries.outcome(nil).repeated {
		t.Error("a second attempt is not counted")
	}
	handler.HandleRPC(t.Context(), &stats.Begin{}) // a call that is not counted
}
