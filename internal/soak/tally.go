package soak

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/load"
)

// tally counts the results of edits.
type tally struct {
	steps           int
	notMade         int // of them: the edit could not be made
	endings         map[applyOutcome]int
	byEdit          map[string]map[applyOutcome]int
	alive, recovery Result
	dead, stuck     []string
	acknowledged    int
	lost            int
	wrongEvents     int           // missed, repeated or out of order
	requests        load.Requests // to the API
	openings        load.Requests // of watches
	etcdWrites      load.Requests
	gap             time.Duration
}

func newTally(name string) *tally {
	return &tally{
		endings: map[applyOutcome]int{}, byEdit: map[string]map[applyOutcome]int{},
		alive:    Result{Name: name + ": one living cluster, no acknowledged write lost"},
		recovery: Result{Name: name + ": the next apply converges, or the edit is reverted"},
	}
}

func (t *tally) count(edit string, how applyOutcome) {
	t.endings[how]++
	if t.byEdit[edit] == nil {
		t.byEdit[edit] = map[applyOutcome]int{}
	}
	t.byEdit[edit][how]++
}

// recordCluster records whether the cluster was intact after a step.
func (t *tally) recordCluster(what string, err error) {
	t.alive.count(err == nil)
	if err != nil {
		t.dead = append(t.dead, what+": "+err.Error())
	}
}

// recordRecovery records whether a step could be recovered from.
func (t *tally) recordRecovery(what string, err error) {
	t.recovery.count(err == nil)
	if err != nil {
		t.stuck = append(t.stuck, what+": "+err.Error())
	}
}

// recordNotMade records a step whose edit could not be made: the CLI refused an import, for example. Nothing shows then
// that the cluster can be recovered.
func (t *tally) recordNotMade(what string, err error) {
	t.notMade++
	t.recordRecovery(what, err)
}

// recordWrites adds what the clients of one cluster observed. err is why their writes could not be read back. The gap
// is that of the API, if there is one: a client of etcd is served by each member in turn. Wrong events are no failure:
// the only API server may restart, and forgets the events of before.
func (t *tally) recordWrites(r load.Report, err error) {
	if err == nil && !r.HashesAgree() {
		err = fmt.Errorf("%v", r.Hashes)
	}
	if err != nil {
		t.recordCluster("at the end", err)
	}
	t.wrongEvents += r.Summary().WrongEvents
	t.acknowledged += r.Acknowledged()
	t.lost += len(r.Lost())
	t.requests, t.openings = t.requests.Plus(r.Requests()), t.openings.Plus(r.Openings())
	t.etcdWrites = t.etcdWrites.Plus(r.EtcdWrites())
	switch {
	case len(r.Clients) > 0:
		t.gap = max(t.gap, r.LongestGap().Length)
	case r.Etcd != nil:
		t.gap = max(t.gap, r.Etcd.Writes.Gap.Length)
	}
}

func (t *tally) results() []Result {
	summary := fmt.Sprintf("%d steps: %s; %d writes acknowledged, %d lost; %d events missed, repeated or out of order; "+
		"longest gap %s", t.steps, counts(t.endings), t.acknowledged, t.lost, t.wrongEvents, t.gap.Round(time.Millisecond))
	summary += "; " + operations(t.requests, t.etcdWrites, t.openings)
	t.alive.Detail = strings.Join(append([]string{summary}, t.dead...), "\n")
	if t.lost > 0 {
		t.alive.Passed = 0
	}
	t.recovery.Detail = fmt.Sprintf("%d kinds of edits", len(t.byEdit))
	for _, edit := range slices.Sorted(maps.Keys(t.byEdit)) {
		t.recovery.Detail += "\n" + edit + ": " + counts(t.byEdit[edit])
	}
	t.recovery.Detail = strings.Join(append([]string{t.recovery.Detail}, t.stuck...), "\n")
	return []Result{t.alive, t.recovery}
}

// countsOf describes how many operations of clients failed.
func countsOf(r load.Report) string { return operations(r.Requests(), r.EtcdWrites(), r.Openings()) }

// operations describes how many of each kind failed, as far as there are any.
func operations(requests, etcdWrites, openings load.Requests) string {
	var all []string
	for _, of := range []struct {
		name  string
		count load.Requests
	}{{"requests", requests}, {"writes into etcd", etcdWrites}, {"openings of watches", openings}} {
		if of.count.Tried > 0 {
			all = append(all, fmt.Sprintf("%s: %s", of.name, of.count))
		}
	}
	if len(all) == 0 {
		return "no clients"
	}
	return strings.Join(all, "; ")
}

// counts describes how often each outcome occurred.
func counts(endings map[applyOutcome]int) string {
	var all []string
	for _, e := range []applyOutcome{applied, refused, stopped, cutOff, failing} {
		if n := endings[e]; n > 0 {
			all = append(all, fmt.Sprintf("%d %s", n, e))
		}
	}
	return strings.Join(all, ", ")
}
