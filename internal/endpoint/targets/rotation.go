package targets

import (
	"context"
	"sync"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Leaving says why a replica leaves rotation.
type Leaving int

// The reasons.
const (
	ToReturn Leaving = iota // for a restart: all others must be ready, also those that are Foreign
	ForGood                 // for a removal: another one must be ready
	AsLast                  // for a removal: another one must be ready, unless there is no other
)

// MayLeave returns the refusal if a replica may not leave rotation, or nil. A replica that is not
// ready itself may always leave.
func (s *Set) MayLeave(name string, seen Observed, how Leaving) error {
	why, last := mayLeave(name, seen, how)
	if why == "" {
		return nil
	}
	return &endpoint.Refusal{Last: last, Problem: &problem.Problem{
		Summary:   "Replica " + name + " not taken out of rotation at endpoint " + s.Address,
		Cause:     why,
		Unchanged: problem.Nothing,
		Next:      "bring the other back, or destroy it if it is gone (its state is below), then apply again",
		Detail:    seen.Table(),
	}}
}

// mayLeave returns why a replica may not leave rotation, and whether the reason is that no other
// one serves.
func mayLeave(name string, seen Observed, how Leaving) (why string, last bool) {
	if leaver := seen[name]; !leaver.Member() || !leaver.Ready() {
		return "", false
	}
	others, ready := 0, 0
	for other, t := range seen {
		if how == ToReturn && t.Foreign && !t.Ready() {
			return "the API server of " + other + ", which is not imported, is not ready, and at most one may be out of " +
				"rotation", false
		}
		if other == name || !t.Member() {
			continue
		}
		others++
		if t.Ready() {
			ready++
		}
	}
	switch {
	case how == AsLast && others == 0:
		return "", false
	case ready == 0 && (how != ToReturn || others > 0):
		return "it is the last replica that is ready", true
	case how == ToReturn && ready < others:
		return "another replica is not ready, and at most one may be out of rotation", false
	}
	return "", false
}

// ObserveInRotation observes all targets. leaver is the replica that is to leave, see WithMoved, or "". For each
// replica that is ready, why says why it gets no requests all the same. It is called for several targets at once, also
// for one whose machine cannot be observed.
func (s *Set) ObserveInRotation(
	ctx context.Context, leaver string, why func(ctx context.Context, t Target) error,
) Observed {
	seen := s.WithMoved(ctx, s.Observe(ctx), leaver)
	var (
		mu  sync.Mutex
		all sync.WaitGroup
		out = Observed{}
	)
	for name, t := range seen {
		all.Go(func() {
			if t.Member() && t.Ready() {
				t.NotReady = why(ctx, t)
			}
			mu.Lock()
			defer mu.Unlock()
			out[name] = t
		})
	}
	all.Wait()
	return out
}
