package controlplane

import (
	"context"
	"sync"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
)

// wayBack is what a change to s can be taken back to, nil for nothing: what runs
// now where all of it is well, or else what did when the change began, which was
// then cut off. A stage of a rotation is never taken back by itself: others may
// count on it.
func wayBack(ctx context.Context, s Spec, f found) *before {
	target := s.Bundle.Generations()
	if !sameGenerations(f.record.Generations, target) {
		return nil
	}
	if f.record.Port != 0 && behind(f.facts, release.Components()) == nil && well(ctx, f.asFound(s)) {
		now := f.runs(target)
		return &now
	}
	if f.before != nil && sameGenerations(f.before.Generations, target) {
		return f.before
	}
	return nil
}

// asFound is s where it serves until the change.
func (f found) asFound(s Spec) Spec {
	s.Port = f.record.Port
	return s
}

// well: all three components say that they are ready.
func well(ctx context.Context, s Spec) bool { return len(ailing(ctx, s)) == 0 }

// ailing says of each component that is not ready why.
func ailing(ctx context.Context, s Spec) []string {
	parts := component.Of(s.Replica)
	health := make([]string, len(parts))
	var asking sync.WaitGroup
	for i, c := range parts {
		asking.Go(func() { health[i] = askOnce(ctx, s, c) })
	}
	asking.Wait()
	var words []string
	for i, c := range parts {
		if health[i] != healthy {
			words = append(words, c.Name+" "+health[i])
		}
	}
	return words
}
