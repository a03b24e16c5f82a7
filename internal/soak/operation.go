package soak

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/soak/cut"
)

// operation is one change of a control plane, from the state in which the
// operation before it has left everything.
type operation struct {
	name                string
	machines            int  // that it leaves members on; 0: it destroys
	afterHealthInterval bool // waits until etcd lets a member go at once
	// variables are set beside the machines. n is another for each run, for an
	// operation that has to change something each time.
	variables func(n int) map[string]any
	// once gives arguments that the apply which follows a cut must not repeat.
	once func(ctx context.Context) ([]string, error)
}

func (o operation) repeatedArguments() []string {
	if o.machines == 0 {
		return []string{"-destroy"}
	}
	return nil
}

// track is an operation with the points that are still to be tried on it, and
// what came of the others.
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

// maxFailures ends a track on which nothing seems to converge.
const maxFailures = 10

func (t *track) done() bool { return len(t.failures) >= maxFailures || t.cursor.done() }

// note records the result of a run. One that was not cut counts only when it failed.
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
