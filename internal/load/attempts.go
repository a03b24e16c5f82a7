package load

import (
	"context"
	"net/http/httptrace"
	"sync/atomic"

	"google.golang.org/grpc/stats"
)

// attempts counts how often a library began one operation. Go's HTTP library begins a request
// again if its connection ends, or a GOAWAY arrives, before the server has processed it. gRPC and
// etcd's client do the same with calls. None of them tells the caller.
type attempts struct{ begun atomic.Int64 }

type attemptsKey struct{}

// countAttempts returns a context for one operation, HTTP or gRPC, whose attempts are counted. For
// HTTP an attempt begins when the library has a connection for the request (GotConn). That includes
// a connection that turns out to be unusable before anything is sent.
func countAttempts(ctx context.Context) (context.Context, *attempts) {
	a := new(attempts)
	ctx = context.WithValue(ctx, attemptsKey{}, a)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { a.begun.Add(1) },
	}), a
}

// outcome returns the outcome of the operation, which has ended with err.
func (a *attempts) outcome(err error) outcome { return outcome{err: err, repeated: a.begun.Load() > 1} }

// outcome is how one operation ended.
type outcome struct {
	err      error
	repeated bool // its library began it more than once
}

// attemptStats counts the attempts of gRPC calls. gRPC reports a Begin for each attempt, also for
// those that it repeats without telling the caller.
type attemptStats struct{}

// TagRPC implements stats.Handler.
func (attemptStats) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC implements stats.Handler.
func (attemptStats) HandleRPC(ctx context.Context, s stats.RPCStats) {
	_, begins := s.(*stats.Begin)
	if a, ok := ctx.Value(attemptsKey{}).(*attempts); ok && begins {
		a.begun.Add(1)
	}
}

// TagConn implements stats.Handler.
func (attemptStats) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (attemptStats) HandleConn(context.Context, stats.ConnStats) {}
