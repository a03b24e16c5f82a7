package targets

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// ErrUnknown is why a replica that is ready counts as out of rotation, unless it is the one that leaves.
var ErrUnknown = errors.New("it is not known whether it is in rotation")

const (
	// probesAgain is how often a replica is probed again that may leave only because its probe has failed.
	probesAgain = 3
	probePause  = time.Second
)

// Leaving says why a replica leaves rotation.
type Leaving int

// The reasons.
const (
	ToReturn Leaving = iota // for a restart: all others must be ready, also those that are Foreign
	ForGood                 // for a removal: another one must be ready
	AsLast                  // for a removal: another one must be ready, unless there is no other
)

// MayLeave returns the refusal if a replica may not leave rotation, or nil. A replica that is not ready itself may
// always leave; one whose probe has failed is probed again before. For one that is ready then, why says why it gets no
// requests all the same. A replica that is no target does not leave to return.
func (s *Set) MayLeave(
	ctx context.Context, name string, seen Observed, how Leaving, why func(ctx context.Context, t Target) error,
) error {
	if how == ToReturn && s.Hosts[name] == "" {
		refusal := s.refusal(name, "it could not return: none of the endpoint's targets has its name",
			"add it to the targets of the endpoint by this name, then apply again")
		refusal.Err = ErrNotATarget
		return refusal
	}
	seen, err := confirm(ctx, name, seen, how, func(ctx context.Context, t Target) Target {
		t.NotReady = s.probeAgain(ctx, t)
		if t.Ready() {
			t.NotReady = why(ctx, t)
		}
		return t
	})
	if err != nil {
		return err
	}
	cause, last := mayLeave(name, seen, how)
	if cause == "" {
		return nil
	}
	refusal := s.refusal(name, cause,
		"bring the other back, or destroy it if it is gone (its state is below), then apply again")
	refusal.Last, refusal.Detail = last, seen.Table()
	return refusal
}

func (s *Set) refusal(name, cause, next string) *endpoint.Refusal {
	return &endpoint.Refusal{Problem: &problem.Problem{
		Summary: "Replica " + name + " not taken out of rotation at endpoint " + s.Address,
		Cause:   cause, Unchanged: problem.Nothing, Next: next,
	}}
}

// mayLeave returns why a replica may not leave rotation, and whether the reason is that no other
// one serves.
func mayLeave(name string, seen Observed, how Leaving) (why string, last bool) {
	if leaver := seen[name]; !leaver.Member() || !leaver.Ready() && !errors.Is(leaver.NotReady, ErrUnknown) {
		return "", false
	}
	others, ready := 0, 0
	for other, t := range seen {
		if how == ToReturn && t.Foreign && !t.Ready() {
			return "the API server of " + other + ", which is not imported, is not ready, and at most one may be out of " +
				"rotation", false
		}
		if other == name || !t.Member() || how == AsLast && t.Abandoned {
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

// confirm returns the targets when the observation of the replica that leaves is certain enough, see doubtful. again
// observes it again.
func confirm(
	ctx context.Context, name string, seen Observed, how Leaving, again func(ctx context.Context, t Target) Target,
) (Observed, error) {
	for tries := 0; tries < probesAgain && doubtful(name, seen, how); tries++ {
		select {
		case <-time.After(probePause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		seen = maps.Clone(seen)
		seen[name] = again(ctx, seen[name])
	}
	return seen, ctx.Err()
}

// doubtful reports whether a replica may leave only because its probe has failed, which one late answer is enough for.
// A refused connection is certain.
func doubtful(name string, seen Observed, how Leaving) bool {
	leaver := seen[name]
	var failed *probeError
	if leaver.Ready() || errors.Is(leaver.NotReady, host.ErrRefused) ||
		leaver.Unreachable == nil && !errors.As(leaver.NotReady, &failed) {
		return false
	}
	leaver.NotReady = nil
	ready := maps.Clone(seen)
	ready[name] = leaver
	why, _ := mayLeave(name, ready, how)
	return why != ""
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
