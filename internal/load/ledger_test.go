package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestGapFinder(t *testing.T) {
	for name, c := range map[string]struct {
		beats []int // ms
		until int
		want  Gap
	}{
		"steady":                   {[]int{20, 40, 60}, 60, Gap{20 * time.Millisecond, 20 * time.Millisecond}},
		"before the first success": {[]int{500, 510}, 515, Gap{10 * time.Millisecond, 500 * time.Millisecond}},
		"in between":               {[]int{20, 320, 340}, 350, Gap{300 * time.Millisecond, 20 * time.Millisecond}},
		"to the end":               {[]int{20, 40}, 900, Gap{860 * time.Millisecond, 40 * time.Millisecond}},
		"answered after the end":   {[]int{20, 940}, 900, Gap{920 * time.Millisecond, 20 * time.Millisecond}},
		"never":                    {nil, 900, Gap{900 * time.Millisecond, 0}},
	} {
		var r gapFinder
		for _, at := range c.beats {
			r.success(time.Duration(at) * time.Millisecond)
		}
		if got := r.longestUntil(time.Duration(c.until) * time.Millisecond); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestKind(t *testing.T) {
	for want, err := range map[string]error{
		"HTTP 503":                       fmt.Errorf("open: %w", &statusError{503, "no leader"}),
		"gRPC Unavailable":               status.Error(codes.Unavailable, "closing"),
		"not sent":                       errNotSent,
		"no answer in time":              fmt.Errorf("read: %w", context.DeadlineExceeded),
		"connection refused":             fmt.Errorf("dial tcp 10.0.0.1:6443: %w", syscall.ECONNREFUSED),
		"connection reset":               syscall.ECONNRESET,
		"no route":                       syscall.EHOSTUNREACH,
		"connection timed out":           syscall.ETIMEDOUT,
		"connection closed":              io.ErrUnexpectedEOF,
		"stream ended: connection reset": &endedError{syscall.ECONNRESET},
		"HTTP/2 GOAWAY":                  errors.New("http2: server sent GOAWAY and closed the connection; LastStreamID=7"),
		"other":                          errors.New("anything"),
	} {
		if got := kind(err); got != want {
			t.Errorf("%v is of kind %q, want %q", err, got, want)
		}
	}
}

func TestErrorCountsKeepTheFirst(t *testing.T) {
	f := errorCounts{}
	f.add(3*time.Second, errors.New("late"), "")
	f.add(time.Second, syscall.ECONNRESET, "")
	f.add(2*time.Second, fmt.Errorf("again: %w", syscall.ECONNRESET), "")
	got := f.list()
	want := ErrorCount{Kind: "connection reset", Count: 2, First: time.Second, Text: "connection reset by peer"}
	if len(got) != 2 || got[0] != want || got[1].Kind != "other" {
		t.Errorf("%+v", got)
	}
}

// TestPaceIsAnOpenLoop: missing answers only reduce the room for more requests.
func TestPaceIsAnOpenLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 14990*time.Millisecond)
		defer cancel()
		answers, stop := context.WithTimeout(t.Context(), 20*time.Second)
		defer stop()
		sent, skipped := make(chan int, 750), 0
		pace(ctx, 50, func(n int) { sent <- n; <-answers.Done() }, func(int) { skipped++ })
		if got := len(sent) + skipped; got != 750 {
			t.Errorf("%d requests in fifteen seconds", got)
		}
		if skipped != 250 { // after ten seconds, twice the timeout
			t.Errorf("%d were not sent", skipped)
		}
		if answers.Err() == nil {
			t.Error("pace did not wait for what was under way")
		}
	})
}
