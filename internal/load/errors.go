package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/status"
)

// longestText limits the stored text of an error.
const longestText = 300

// ErrorCount is one kind of error.
type ErrorCount struct {
	Kind  string
	Count int
	First time.Duration // since the start
	Text  string        // of the first error
	// Excuse is why errors of this kind are excused; "" if they are not.
	Excuse string
}

// String returns one line.
func (f ErrorCount) String() string {
	text := fmt.Sprintf("%d × %s, first at %.3f s: %s", f.Count, f.Kind, f.First.Seconds(), f.Text)
	if f.Excuse != "" {
		text += " (excused: " + f.Excuse + ")"
	}
	return text
}

// join returns all errors on one line.
func join(all []ErrorCount) string {
	var lines []string
	for _, f := range all {
		lines = append(lines, f.String())
	}
	return strings.Join(lines, "; ")
}

// errorCounts counts errors by kind and excuse.
type errorCounts map[errorKind]*ErrorCount

type errorKind struct{ kind, excuse string }

// add counts an error, which is excused if excuse is not "".
func (f errorCounts) add(at time.Duration, err error, excuse string) {
	of := errorKind{kind(err), excuse}
	if f[of] == nil {
		text := strings.ReplaceAll(err.Error(), "\n", " ")
		f[of] = &ErrorCount{Kind: of.kind, First: at, Text: text[:min(len(text), longestText)], Excuse: excuse}
	}
	f[of].Count++
}

// list returns the kinds in the order of their first occurrence.
func (f errorCounts) list() []ErrorCount {
	var all []ErrorCount
	for _, e := range f {
		all = append(all, *e)
	}
	slices.SortFunc(all, func(a, b ErrorCount) int {
		return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(a.Excuse, b.Excuse))
	})
	return all
}

// endedError is a broken stream. It is listed, but is not a failed request.
type endedError struct{ cause error }

func (e *endedError) Error() string { return "stream ended: " + e.cause.Error() }
func (e *endedError) Unwrap() error { return e.cause }

// kind classifies errors by what a client observed, without addresses and numbers that would
// make each error a kind of its own.
func kind(err error) string {
	var ended *endedError
	if errors.As(err, &ended) {
		return "stream ended: " + kind(ended.cause)
	}
	var answer *statusError
	if errors.As(err, &answer) {
		return fmt.Sprintf("HTTP %d", answer.code)
	}
	var refusal rpctypes.EtcdError
	if errors.As(err, &refusal) {
		return "gRPC " + refusal.Code().String()
	}
	if s, ok := status.FromError(err); ok {
		return "gRPC " + s.Code().String()
	}
	for _, known := range []struct {
		is   error
		name string
	}{
		{errNotSent, "not sent"},
		{context.DeadlineExceeded, "no answer in time"},
		{os.ErrDeadlineExceeded, "no answer in time"},
		{syscall.ECONNREFUSED, "connection refused"},
		{syscall.ECONNRESET, "connection reset"},
		{syscall.EPIPE, "connection reset"},
		{syscall.EHOSTUNREACH, "no route"},
		{syscall.ENETUNREACH, "no route"},
		{syscall.ETIMEDOUT, "connection timed out"},
		{io.ErrUnexpectedEOF, "connection closed"},
		{io.EOF, "connection closed"},
	} {
		if errors.Is(err, known.is) {
			return known.name
		}
	}
	return kindOfText(err.Error())
}

// kindOfText classifies the errors of net/http that have no exported type.
func kindOfText(text string) string {
	for _, known := range []struct{ part, name string }{
		{"GOAWAY", "HTTP/2 GOAWAY"},
		{"stream error", "HTTP/2 stream error"},
		{"client connection lost", "HTTP/2 ping unanswered"},
		{"client connection force closed", "connection closed"},
		{"TLS handshake timeout", "no answer in time"},
		{"tls: ", "TLS"},
	} {
		if strings.Contains(text, known.part) {
			return known.name
		}
	}
	return "other"
}
