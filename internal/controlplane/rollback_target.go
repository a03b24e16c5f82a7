package controlplane

import (
	"context"
	"sync"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
)

// rollbackTarget returns what a change to s can be rolled back to, or nil. The target is what
// runs now, if all of it is ready, or what ran when an interrupted change began. A stage of a
// rotation is never rolled back automatically: other replicas may rely on it.
func rollbackTarget(ctx context.Context, s Spec, f observed) *rollbackRecord {
	target := s.Bundle.Generations()
	if !sameGenerations(f.record.Generations, target) {
		return nil
	}
	if f.record.Port != 0 && staleProcess(f.facts, release.Components()) == nil && allReady(ctx, f.servingAsFound(s)) {
		now := f.rollbackRecord(target)
		return &now
	}
	if f.rollback != nil && sameGenerations(f.rollback.Generations, target) {
		return f.rollback
	}
	return nil
}

// servingAsFound returns s with the port that it serves on until the change.
func (f observed) servingAsFound(s Spec) Spec {
	s.Port = f.record.Port
	return s
}

// allReady reports whether all three components are ready.
func allReady(ctx context.Context, s Spec) bool { return len(componentsNotReady(ctx, s)) == 0 }

// componentsNotReady returns, for each component that is not ready, the reason.
func componentsNotReady(ctx context.Context, s Spec) []string {
	parts := component.Of(s.Replica)
	health := make([]string, len(parts))
	var asking sync.WaitGroup
	for i, c := range parts {
		asking.Go(func() { health[i] = askOnce(ctx, s, c) })
	}
	asking.Wait()
	var problems []string
	for i, c := range parts {
		if health[i] != healthy {
			problems = append(problems, c.Name+" "+health[i])
		}
	}
	return problems
}
