package load

import (
	"errors"
	"fmt"
	"io"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestRefusals429And503(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{&statusError{code: 429}, true},
		{fmt.Errorf("open: %w", &statusError{code: 503}), true},
		{&statusError{code: 500}, false},
		{&statusError{code: 500, text: "x"}, false},
		{fmt.Errorf("dial: %w", syscall.ECONNREFUSED), true},
		{syscall.ECONNRESET, false},
		{errNotSent, false},
		{rpctypes.Error(rpctypes.ErrGRPCStopped), true},
		{rpctypes.Error(rpctypes.ErrGRPCRequestTooManyRequests), true},
		{rpctypes.Error(rpctypes.ErrGRPCNoSpace), true}, // ResourceExhausted
		{rpctypes.Error(rpctypes.ErrGRPCCompacted), false},
		{status.Error(codes.Unavailable, "dial tcp 10.0.0.1:2379: connect: connection refused"), true},
		{status.Error(codes.Unavailable, "error reading from server: EOF"), false},
	} {
		if got := isRefusal(c.err); got != c.want {
			t.Errorf("%v: refused is %v", c.err, got)
		}
	}
}

// TestExcusedIsCountedAsFailed: an excused failure is a failure, a limited excuse ends, and the reason
// is shown with the error.
func TestExcusedIsCountedAsFailed(t *testing.T) {
	c := Criteria{}.Excusing(
		Excuse{Operation: WatchOpening, Reason: "for another operation"},
		Excuse{Operation: APIRequest, Kinds: []string{"HTTP 500"}, Texts: []string{"stopped"}, Most: 2, Reason: "it stops"})
	l := newLedger(time.Now(), c.excusing(APIRequest))
	for range 3 {
		l.read(outcome{err: &statusError{500, "raft: stopped"}})
	}
	l.wrote("", outcome{err: &statusError{500, "other"}})
	l.wrote("", outcome{err: errors.New("raft: stopped")})
	l.wrote("a", outcome{repeated: true})
	got := l.report("kept", &dials{}, 0)
	if want := (Requests{Tried: 6, Failed: 5, Excused: 2, Repeated: 1}); got.All.Tried != want.Tried ||
		got.All.Failed != want.Failed || got.All.Excused != want.Excused || got.All.Repeated != want.Repeated {
		t.Errorf("%s, want %s", got.All, want)
	}
	counts := map[string]int{}
	for _, e := range got.Errors {
		counts[e.Kind+"/"+e.Excuse] += e.Count
	}
	if counts["HTTP 500/it stops"] != 2 || counts["HTTP 500/"] != 2 || counts["other/"] != 1 {
		t.Errorf("errors: %v", counts)
	}
}

// TestAway: no more openings are excused than a watch can try while nothing answers.
func TestAway(t *testing.T) {
	e := Criteria{}.Excusing(Away(2 * time.Second)).excusing(WatchOpening)
	excused := 0
	for range 30 {
		if e.excuse(syscall.EHOSTUNREACH) != "" {
			excused++
		}
	}
	if excused != 20 {
		t.Errorf("%d openings are excused, want 20", excused)
	}
}

// TestEnded: a request is excused if its connection has ended, not if a new one is refused.
func TestEnded(t *testing.T) {
	for _, all := range [][]Excuse{Rerouted(2), Moved(2)} {
		e := Criteria{}.Excusing(all...).excusing(APIRequest)
		if e.excuse(syscall.ECONNRESET) == "" || e.excuse(io.EOF) == "" {
			t.Errorf("the end of a connection is not excused: %v", all)
		}
		if got := e.excuse(fmt.Errorf("dial: %w", syscall.ECONNREFUSED)); got != "" {
			t.Errorf("a refused connection is excused: %s", got)
		}
	}
}

func TestExcuseInWords(t *testing.T) {
	e := Excuse{Operation: APIRequest, Kinds: []string{"HTTP 500"}, Texts: []string{"a", "b"}, Most: 2, Reason: "it stops"}
	const want = `requests to the API that fail with HTTP 500 and the text "a" or "b", at most 2: it stops`
	if e.String() != want {
		t.Errorf("%s, want %s", e, want)
	}
}
