package haproxy

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Read observes every host in one round trip each, in parallel. The replicas of the same
// refresh use the same observation. A host that is unreachable, or hangs, is not drift. Read fails with
// host.ErrUnreachable or host.ErrNoAnswer if no host answers, and with endpoint.ErrGone if every host answers and
// none has anything of the endpoint.
func (r *Registrars) Read(ctx context.Context, s Spec) (endpoint.Status, error) {
	status, seen, err := read(ctx, s)
	if err == nil {
		r.cache.put(s.Registration(), seen, time.Now())
	}
	return status, err
}

// read is Read without the cache. It also returns the observation.
func read(ctx context.Context, s Spec) (endpoint.Status, map[string]balancer, error) {
	seen, err := observe(ctx, s, balancerQuery(s, false))
	if err != nil {
		return endpoint.Status{}, nil, fmt.Errorf("read endpoint %s: %w", s.Address, err)
	}
	reachable, present := 0, false
	for _, b := range seen {
		if b.unreachable == nil {
			reachable++
			present = present || b.installed()
		}
	}
	switch {
	case reachable == 0:
		return endpoint.Status{}, nil, fmt.Errorf("read endpoint %s: %w", s.Address, unreachableOf(seen))
	case reachable == len(s.Hosts) && !present:
		return endpoint.Status{}, nil, goneError(s)
	}
	return status(s, seen), seen, nil
}

// goneError is endpoint.ErrGone with the evidence. The next plan shows it with the new endpoint.
func goneError(s Spec) error {
	return &problem.Problem{
		Summary: "Endpoint " + s.Address + " is gone", Host: strings.Join(names(s.Hosts), ", "), Err: endpoint.ErrGone,
		Cause: "every machine answers and nothing of it is on any",
		Next:  "apply to create it again, or remove it from the configuration",
	}
}
