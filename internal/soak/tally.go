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
	endings         map[applyOutcome]int
	byEdit          map[string]map[applyOutcome]int
	alive, recovery Result
	dead, stuck     []string
	acknowledged    int
	lost            int
	tried, fails    int // requests to the API
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

// recordWrites adds what the clients of one cluster observed. The gap is that of the API, if
// there is one: a client of etcd is served by each member in turn.
func (t *tally) recordWrites(r load.Report) {
	t.acknowledged += r.Acknowledged()
	t.lost += len(r.Lost())
	t.tried, t.fails = t.tried+r.Tried(), t.fails+r.Failed()
	switch {
	case len(r.Clients) > 0:
		t.gap = max(t.gap, r.LongestGap().Length)
	case r.Etcd != nil:
		t.gap = max(t.gap, r.Etcd.Writes.Gap.Length)
	}
}

func (t *tally) results() []Result {
	summary := fmt.Sprintf("%d steps: %s; %d writes acknowledged, %d lost; longest gap %s",
		t.steps, counts(t.endings), t.acknowledged, t.lost, t.gap.Round(time.Millisecond))
	if t.tried > 0 {
		summary += fmt.Sprintf("; %d of %d requests failed", t.fails, t.tried)
	}
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
