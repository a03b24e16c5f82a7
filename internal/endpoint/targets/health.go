package targets

import (
	"context"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Health is the observed state of an endpoint and its targets.
type Health struct {
	Replicas map[string]string // name → host:port: targets that have a replica, or whose machine cannot be observed
	NotReady map[string]string // name → reason, of Replicas
	URL      string
	Silence  string // why the endpoint does not answer; "" if it does
}

// Health observes the targets, which are in rotation while they are ready, and the endpoint. It never fails: what is
// wrong is in the result. A data source knows no hooks, so it does not ask the balancer.
func (s *Set) Health(ctx context.Context) Health {
	h := HealthOf(s.Observe(ctx))
	h.URL = s.BaseURL()
	if err := s.Answers(ctx); err != nil {
		h.Silence = problem.Line(err.Error())
	}
	return h
}

// HealthOf returns the replicas of observed targets.
func HealthOf(seen Observed) Health {
	h := Health{Replicas: map[string]string{}, NotReady: map[string]string{}}
	for name, t := range seen {
		if !t.MayServe() {
			continue
		}
		h.Replicas[name] = t.At()
		if !t.Ready() {
			h.NotReady[name] = problem.Line(t.NotReady.Error())
		}
	}
	return h
}
