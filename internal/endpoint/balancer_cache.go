package endpoint

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// sightingFor is how long a refresh goes by what it has seen of a balancer. Plans
// of a hundred control planes take longer than any one Read, and each of their
// replicas would look at every balancer again.
const sightingFor = 15 * time.Second

// sightings are the balancers of each endpoint as a refresh has seen them, by
// registration. They serve to tell drift and nothing else: whatever is decided
// before a change is looked at anew, and a change of rotation forgets them.
type sightings struct {
	mu   sync.Mutex
	last map[string]sighting
}

type sighting struct {
	seen map[string]balancer // without what rotation has no use for
	at   time.Time
}

// keep remembers what was seen.
func (s *sightings) keep(of Registration, seen map[string]balancer, now time.Time) {
	kept := make(map[string]balancer, len(seen))
	for name, b := range seen {
		kept[name] = balancer{unreachable: b.unreachable, stranger: b.stranger, backends: b.backends, stats: b.stats, answers: b.answers}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		s.last = map[string]sighting{}
	}
	s.last[fmt.Sprint(of)] = sighting{seen: kept, at: now}
}

// recent is what was seen of an endpoint's balancers a short while ago, or nil.
func (s *sightings) recent(of Registration, now time.Time) map[string]balancer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := s.last[fmt.Sprint(of)]; now.Sub(last.at) < sightingFor {
		return last.seen
	}
	return nil
}

// forget is for whoever changes what is in rotation.
func (s *sightings) forget(of Registration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.last, fmt.Sprint(of))
}

// Read observes every host in one round trip each, in parallel; the replicas of the
// same refresh go by what it saw. Some hosts unreachable: reported in Status.Hosts;
// all of them: host.ErrUnreachable. Nothing there on any: ErrGone.
func (r *Registrars) Read(ctx context.Context, s Spec) (Status, error) {
	status, seen, err := read(ctx, s)
	if err == nil {
		r.sightings.keep(s.Registration(), seen, time.Now())
	}
	return status, err
}
