package soak

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/soak/cut"
)

// operation is one change of a control plane. It starts from the state after the previous
// operation.
type operation struct {
	name                string
	machines            int  // that have a member afterwards; 0: it destroys
	afterHealthInterval bool // waits until etcd allows a member to leave immediately
	// variables returns the variables in addition to the machines. n differs for each run, for
	// an operation that must change something each time.
	variables func(n int) map[string]any
	// once returns arguments that the apply after an interruption must not repeat.
	once func(ctx context.Context) ([]string, error)
}

func (o operation) repeatedArguments() []string {
	if o.machines == 0 {
		return []string{"-destroy"}
	}
	return nil
}

// track is an operation with the remaining points, and the results of the others.
type track struct {
	operation
	cursor

	runs     int
	cuts     map[cut.Side]int
	passed   int
	commands int // of the longest run
	spent    time.Duration
	failures []string
}

func newTrack(o operation, c cursor) *track {
	return &track{operation: o, cursor: c, cuts: map[cut.Side]int{}}
}

// maxFailures ends a track that does not seem to converge.
const maxFailures = 10

func (t *track) done() bool { return len(t.failures) >= maxFailures || t.cursor.done() }

// note records the result of a run. A run that was not interrupted counts only if it failed.
func (t *track) note(p cut.Point, log cut.Log, err error, took time.Duration) {
	t.ran(log)
	t.runs++
	t.spent += took
	t.commands = max(t.commands, log.Commands)
	if log.Cut {
		t.cuts[p.Side]++
	}
	switch {
	case err != nil:
		t.failures = append(t.failures, where(p, log)+": "+err.Error())
	case log.Cut:
		t.passed++
	}
}

func where(p cut.Point, log cut.Log) string {
	if !log.Cut {
		return fmt.Sprintf("not cut, %d commands", log.Commands)
	}
	return fmt.Sprintf("cut %s command %d (%s)", p.Side, p.Command, log.At)
}

func (t *track) result() Result {
	summary := fmt.Sprintf("%d commands, cut before one %d times and after one %d times, %.1f s a run",
		t.commands, t.cuts[cut.Before], t.cuts[cut.After], t.spent.Seconds()/float64(max(t.runs, 1)))
	return Result{
		Name: "interrupted: " + t.name, Tried: t.passed + len(t.failures), Passed: t.passed,
		Detail: strings.Join(append([]string{summary}, t.failures...), "\n"),
	}
}
