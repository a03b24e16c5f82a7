package provider

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// rotationEnds are the rotations that a plan ends, by cluster ID. The end of a rotation drops a key for good, so
// afterwards nothing can be signed by it for a machine that does not trust the other one yet. Bundles are planned
// before the members and replicas that use them.
type rotationEnds struct {
	mu       sync.Mutex
	parts    map[string]map[pki.Part]rotationEnd
	external map[string]bool // the plan moves the key of the Kubernetes CA to a signer
	turning  map[string]bool // the plan changes a generation
}

// rotationEnd is a change of a part's generation to a steady stage.
type rotationEnd struct{ from, to int }

// planned records what a change of a bundle ends.
func (r *rotationEnds) planned(before, after *pki.Bundle) {
	r.plannedStages(before, after.Generations(), after.External(pki.Kubernetes))
}

// plannedStages is planned for a bundle of which the plan knows only the generations. external reports whether the key
// of the Kubernetes CA is elsewhere then.
func (r *rotationEnds) plannedStages(before *pki.Bundle, generations map[pki.Part]int, external bool) {
	ends := map[pki.Part]rotationEnd{}
	for _, p := range pki.Parts() {
		if from, to := before.Generation(p), generations[p]; from != to && pki.StageOf(to) == pki.Steady {
			ends[p] = rotationEnd{from, to}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.parts == nil {
		r.parts, r.external = map[string]map[pki.Part]rotationEnd{}, map[string]bool{}
	}
	r.parts[before.ClusterID], r.external[before.ClusterID] = ends, external
	if r.turning == nil {
		r.turning = map[string]bool{}
	}
	r.turning[before.ClusterID] = !maps.Equal(before.Generations(), generations)
}

// turns reports whether a plan moves a rotation of a cluster to another stage.
func (r *rotationEnds) turns(clusterID string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.turning[clusterID]
}

// movesKey reports whether a plan moves the key of the Kubernetes CA of a cluster to a signer.
func (r *rotationEnds) movesKey(clusterID string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.external[clusterID]
}

// of returns what a plan ends for a cluster.
func (r *rotationEnds) of(clusterID string) map[pki.Part]rotationEnd {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.parts[clusterID]
}

// leavesBehind returns what the end of the rotation of a part would cause on a machine at a generation, or "". What it
// drops is needed to reach the introduction (to-2, on the way forward) or to leave the adoption (to+2, on the way
// back). At the introduction, a replica still signs with it.
func (e rotationEnd) leavesBehind(p pki.Part, generation int) string {
	switch forth := e.to > e.from; {
	case forth && generation < e.to-2, !forth && generation > e.to+1:
		return "it could not be changed afterwards"
	case forth && p.Signs() && generation == e.to-2:
		return "it signs with that key until then, and what it has signed would be refused"
	}
	return ""
}

// remedy says how a machine at a generation can follow. The bundle goes back by one stage only.
func (e rotationEnd) remedy(setting string, generation int) string {
	next := generation - 1
	if generation < e.to {
		next = generation + 1
	}
	if max(next-e.from, e.from-next) > 1 {
		return "destroy or replace it (terraform apply -replace=ADDRESS), then go on"
	}
	return fmt.Sprintf("set %s to %d and apply everything (without -target), then go on by one number at a time, as the "+
		"guide Rotating CAs and keys says", setting, next)
}

// refuseLeftBehind rejects a plan that ends a rotation of one of the parts while a member or a replica has not followed
// it. before is the bundle with which it was last applied; nil if it is not known. who is its name in the diagnostic.
func (s *session) refuseLeftBehind(before *pki.Bundle, who string, parts []pki.Part, diags *diag.Diagnostics) {
	if s == nil || before == nil {
		return
	}
	ends := s.rotationEnds.of(before.ClusterID)
	for _, p := range slices.Sorted(maps.Keys(ends)) {
		end, have := ends[p], before.Generation(p)
		effect := end.leavesBehind(p, have)
		if !slices.Contains(parts, p) || effect == "" {
			continue
		}
		setting := "rotation." + p.Attribute()
		diags.AddAttributeError(attributePath("pki"), "The plan ends a rotation that has not reached every machine",
			fmt.Sprintf("Cause: %s goes from %d to %d, which drops a key for good, and %s was last applied at %d: %s.\n"+
				"Unchanged: nothing was changed.\nNext step: %s.",
				setting, end.from, end.to, who, have, effect, end.remedy(setting, have)))
	}
}
