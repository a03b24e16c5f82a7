package external

import (
	"context"
	"sync"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// entries remembers since when replicas have been ready, as far as this process has seen: without the hook status,
// nobody says whether the balancer has noticed that one is. It may have become ready in an apply that was cut off, or
// after a reboot.
type entries struct {
	mu    sync.Mutex
	since map[string]time.Time // by endpoint and name
}

func newEntries() *entries { return &entries{since: map[string]time.Time{}} }

// observed notes which replicas of an endpoint are ready now.
func (e *entries) observed(endpoint string, seen targets.Observed) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for name, t := range seen {
		key := endpoint + " " + name
		if !t.Member() || !t.Ready() {
			delete(e.since, key)
		} else if _, known := e.since[key]; !known {
			e.since[key] = time.Now()
		}
	}
}

// set notes since when a replica has been ready; zero if it is about to stop.
func (e *entries) set(endpoint, name string, since time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if since.IsZero() {
		delete(e.since, endpoint+" "+name)
		return
	}
	e.since[endpoint+" "+name] = since
}

// rest returns how long it takes until the balancer has noticed that all others than the leaver are ready. entry is how
// long one takes.
func (e *entries) rest(endpoint, leaver string, seen targets.Observed, entry time.Duration) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	var longest time.Duration
	for name := range seen.Serving() {
		if name != leaver {
			longest = max(longest, time.Until(e.since[endpoint+" "+name].Add(entry)))
		}
	}
	return longest
}

// entry identifies the endpoint in entries: control planes may have one balancer, at several ports.
func (r *Registrar) entry() string { return r.ClusterID + " " + r.ID() }

// awaitEntries returns false at once if the balancer has the others in rotation that are ready. Else it waits until it
// had the time to notice, and the targets have to be observed again.
func (r *Registrar) awaitEntries(ctx context.Context, leaver string, seen targets.Observed) (waited bool, err error) {
	if len(r.Hooks.Status) > 0 || seen.Serving()[leaver] == "" {
		return false, nil
	}
	rest := r.entries.rest(r.entry(), leaver, seen, r.EntryTime())
	if rest <= 0 {
		return false, nil
	}
	problem.Progress(ctx, "replica %s: waiting for another %s, until the balancer at %s has noticed that the others are "+
		"ready", leaver, rest.Round(time.Second), r.Address)
	select {
	case <-time.After(rest):
	case <-ctx.Done():
	}
	return true, ctx.Err()
}
