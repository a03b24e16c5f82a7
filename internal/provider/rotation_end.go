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
	mu    sync.Mutex
	parts map[string]map[pki.Part]rotationEnd
}

// rotationEnd is a change of a part's generation to a steady stage.
type rotationEnd struct{ from, to int }

// planned records what a change of a bundle ends.
func (r *rotationEnds) planned(before, after *pki.Bundle) {
	ends := map[pki.Part]rotationEnd{}
	for _, p := range pki.Parts() {
		if from, to := before.Generation(p), after.Generation(p); from != to && pki.StageOf(to) == pki.Steady {
			ends[p] = rotationEnd{from, to}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.parts == nil {
		r.parts = map[string]map[pki.Part]rotationEnd{}
	}
	r.parts[after.ClusterID] = ends
}

// of returns what a plan ends for a cluster.
func (r *rotationEnds) of(clusterID string) map[pki.Part]rotationEnd {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.parts[clusterID]
}

// leavesBehind reports whether a machine at a generation could not follow. What the end of a rotation drops is needed
// to reach the introduction (to-2, on the way forward) or to leave the adoption (to+2, on the way back).
func (e rotationEnd) leavesBehind(generation int) bool {
	return e.to > e.from && generation < e.to-2 || e.to < e.from && generation > e.to+1
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
	return fmt.Sprintf("set %s to %d and apply everything (without -target), then go on by one number at a time", setting,
		next)
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
		if !slices.Contains(parts, p) || !end.leavesBehind(have) {
			continue
		}
		setting := "rotation." + p.Attribute()
		diags.AddAttributeError(attributePath("pki"), "The plan ends a rotation that has not reached every machine",
			fmt.Sprintf("Cause: %s goes from %d to %d, which drops a key for good, and %s was last applied at %d: it could "+
				"not be changed afterwards.\nUnchanged: nothing was changed.\nNext step: %s.",
				setting, end.from, end.to, who, have, end.remedy(setting, have)))
	}
}
