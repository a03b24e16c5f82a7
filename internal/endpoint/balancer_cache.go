package endpoint

import (
	"fmt"
	"sync"
	"time"
)

// cacheTTL is how long a refresh goes by what it has seen of a balancer. Plans
// of a hundred control planes take longer than any one Read, and each of their
// replicas would look at every balancer again.
const cacheTTL = 15 * time.Second

// balancerCache are the balancers of each endpoint as a refresh has seen them, by
// registration. They serve to tell drift and nothing else: whatever is decided
// before a change is looked at anew, and a change of rotation forgets them.
type balancerCache struct {
	mu   sync.Mutex
	last map[string]cachedBalancers
}

type cachedBalancers struct {
	seen map[string]balancer // without what rotation has no use for
	at   time.Time
}

// put remembers what was seen.
func (s *balancerCache) put(of Registration, seen map[string]balancer, now time.Time) {
	kept := make(map[string]balancer, len(seen))
	for name, b := range seen {
		kept[name] = balancer{unreachable: b.unreachable, otherEndpoint: b.otherEndpoint, backends: b.backends, stats: b.stats, answers: b.answers}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		s.last = map[string]cachedBalancers{}
	}
	s.last[fmt.Sprint(of)] = cachedBalancers{seen: kept, at: now}
}

// get is what was seen of an endpoint's balancers a short while ago, or nil.
func (s *balancerCache) get(of Registration, now time.Time) map[string]balancer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := s.last[fmt.Sprint(of)]; now.Sub(last.at) < cacheTTL {
		return last.seen
	}
	return nil
}

// invalidate is for whoever changes what is in rotation.
func (s *balancerCache) invalidate(of Registration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.last, fmt.Sprint(of))
}
