package soak

import (
	"context"
	"fmt"
	"maps"
	"slices"
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
	leader              int  // the member that leads before the operation, if there is one
	// on are all machines in use or not, those of the members first; nil: as before.
	on []string
	// before makes the conditions of a run that is to be interrupted; nil: there are none.
	before func(context.Context) error
	// variables returns the variables in addition to the machines. n is the number of the operation
	// since the machines were bare, for an operation that must change something each time.
	variables func(n int) map[string]any
	// override is a part of the configuration that the operation and the next plans have in addition; "": none.
	override string
	// check returns what is wrong after it, in addition to the checks of the sweep; nil: nothing else is checked.
	check func(ctx context.Context) error
	// once are arguments that the apply after an interruption must not repeat.
	once []string
}

func (o operation) repeatedArguments() []string {
	if o.machines == 0 {
		return []string{"-destroy"}
	}
	return nil
}

// track is an operation with its points, and the results of its runs.
type track struct {
	operation
	*cursor // nil: it is never interrupted

	runs     int
	cuts     map[cut.Side]int
	passed   int
	spent    time.Duration
	failures []string
}

func newTrack(o operation, c *cursor) *track {
	return &track{operation: o, cursor: c, cuts: map[cut.Side]int{}}
}

// uninterrupted is for steps that only prepare an operation.
func uninterrupted(o operation) *track { return newTrack(o, nil) }

// track returns an operation that is interrupted.
func (e *Env) track(o operation) *track { return newTrack(o, e.newCursor(o.name)) }

// maxFailures ends a track that does not seem to converge.
const maxFailures = 10

func (t *track) done() bool {
	return t.cursor == nil || len(t.failures) >= maxFailures || t.cursor.done()
}

// note records the result of a run. A run that was not interrupted counts only if it failed.
func (t *track) note(p cut.Point, log cut.Log, err error, took time.Duration) {
	t.ran(p, log, err)
	t.runs++
	t.spent += took
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
	switch {
	case log.Cut:
		return "cut " + p.String()
	case p == (cut.Point{}):
		return fmt.Sprintf("not cut, %d commands", log.Commands)
	}
	return "not reached " + p.String()
}

// result counts the points that were cut, including those of earlier runs of kube-lab, also the failed ones that this
// run has not cut again. A track that was cut nowhere has tested nothing, so it fails.
func (t *track) result() Result {
	var never, other []string
	earlier, failed, open, gone := map[string]int{}, map[string]int{}, 0, 0
	for _, p := range t.points {
		switch {
		case !p.exists():
			gone++
		case p.commit != "":
			earlier[p.commit]++
		case p.over():
		case p.failedAt != "":
			failed[p.failedAt]++
		case p.misses >= maxAttempts:
			never = append(never, "never cut: "+p.at.String())
		default:
			open++
		}
	}
	summary := fmt.Sprintf("%d points of %d commands and requests: %d cut (%d before, %d during, %d after), %d never cut",
		len(t.points)-gone, t.steps, t.cuts[cut.Before]+t.cuts[cut.During]+t.cuts[cut.After], t.cuts[cut.Before],
		t.cuts[cut.During], t.cuts[cut.After], len(never))
	for _, commit := range slices.Sorted(maps.Keys(earlier)) {
		other = append(other, fmt.Sprintf("%d cut by earlier runs at commit %s", earlier[commit], short(commit)))
	}
	for _, commit := range sortedKeys(failed) {
		other = append(other, fmt.Sprintf("%d failed in earlier runs at commit %s", failed[commit], short(commit)))
	}
	if gone > 0 {
		other = append(other, fmt.Sprintf("%d points of earlier runs are no longer there", gone))
	}
	if open > 0 {
		other = append(other, fmt.Sprintf("%d not tried", open))
	}
	summary = strings.Join(append([]string{summary}, other...), ", ")
	summary += fmt.Sprintf(", %.1f s a run", t.spent.Seconds()/float64(max(t.runs, 1)))
	r := Result{Name: "interrupted: " + t.name, Tried: t.passed + len(t.failures), Passed: t.passed}
	for _, n := range earlier {
		r.Tried, r.Passed = r.Tried+n, r.Passed+n
	}
	for _, n := range failed {
		r.Tried += n
	}
	if r.Tried == 0 {
		r.count(false)
		summary = "nothing was tested: " + summary
	}
	r.Detail = strings.Join(slices.Concat([]string{summary}, t.failures, never), "\n")
	return r
}

// sortedKeys returns the keys of a map in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
