package haproxy

import (
	"sync"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
)

// cacheTTL is how long a refresh uses a cached observation of the balancers. Without the cache,
// each replica's Read would observe each balancer again.
const cacheTTL = 15 * time.Second

// balancerCache holds the last observation of each endpoint's balancers, by
// registration. It is used for drift only: decisions before a change use a new
// observation, and a change of the backends invalidates the entry.
type balancerCache struct {
	mu   sync.Mutex
	last map[string]cachedBalancers
}

type cachedBalancers struct {
	seen map[string]balancer // only the fields that rotation needs
	at   time.Time
}

// put stores an observation.
func (s *balancerCache) put(of endpoint.Registration, seen map[string]balancer, now time.Time) {
	kept := make(map[string]balancer, len(seen))
	for name, b := range seen {
		kept[name] = balancer{
			unreachable: b.unreachable, otherEndpoint: b.otherEndpoint, backends: b.backends,
			stats: b.stats, answers: b.answers,
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		s.last = map[string]cachedBalancers{}
	}
	s.last[of.Key()] = cachedBalancers{seen: kept, at: now}
}

// get returns the balancers of an endpoint, or nil if the observation is older than cacheTTL.
func (s *balancerCache) get(of endpoint.Registration, now time.Time) map[string]balancer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := s.last[of.Key()]; now.Sub(last.at) < cacheTTL {
		return last.seen
	}
	return nil
}

// invalidate drops the entry of an endpoint whose backends change.
func (s *balancerCache) invalidate(of endpoint.Registration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.last, of.Key())
}
