package provider

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// disruption tracks what a plan does to the members or replicas of each cluster, as far as the
// plan shows it. It rejects a plan that would leave none of the serving ones: replacing all of
// them at once destroys the cluster and bootstraps another one. The apply checks the same
// against the machines.
type disruption struct {
	mu     sync.Mutex
	groups map[string]*group // by kind and cluster ID
	// unplaced are the identities, by kind, of what the plan creates while it does not know the bundle yet, because it
	// changes that too.
	unplaced map[string]map[string]bool
}

// disruption returns where a plan's effects are recorded. It returns nil once a change of the run
// has begun, because the machines are the source of truth from then on.
func (s *session) disruption() *disruption {
	if s == nil || s.versions.hasBegun() {
		return nil
	}
	return &s.planned
}

// group is the members, or the replicas, of one cluster.
type group struct {
	kind      string // "etcd members"
	protected bool
	serving   map[string]bool     // by identity: in the state, and observed as serving
	destroyed map[string]bool     // the serving ones that the plan destroys or replaces
	removed   map[string]bool     // by a resource that the plan destroys and does not replace
	kept      map[string]bool     // by a resource that the plan keeps
	created   map[string]bool     // created by the plan, including replacements
	joins     map[string][]string // by created member: the peers that it names
	known     map[string]bool     // seen as a resource of this run, serving or not
	peers     map[string]bool     // named by a resource, with or without a resource of their own
	unplaced  bool                // the bundle of some that are created is not known yet: it may be another one
}

// resourceID identifies a member or a replica, independent of its Terraform address.
func resourceID(name, address string) string { return name + " (" + address + ")" }

func (s *disruption) group(kind string, bundle *pki.Bundle) *group {
	if s.groups == nil {
		s.groups = map[string]*group{}
	}
	key := identity(kind, bundle.ClusterID)
	g, ok := s.groups[key]
	if !ok {
		g = &group{
			kind: kind, serving: map[string]bool{}, destroyed: map[string]bool{}, created: map[string]bool{},
			known: map[string]bool{}, peers: map[string]bool{}, joins: map[string][]string{},
			removed: map[string]bool{}, kept: map[string]bool{},
		}
		s.groups[key] = g
	}
	g.protected = bundle.DeletionProtected()
	return g
}

// priorObject is what is known of one resource before the plan.
type priorObject struct {
	kind    string
	id      string
	bundle  *pki.Bundle
	serving bool     // a voting member, or a replica in rotation
	peers   []string // the other members or replicas that it names
}

func (r priorObject) complete() bool { return r.bundle != nil && r.id != "" }

// record records what a resource was before the plan.
func (g *group) record(r priorObject) {
	g.known[r.id] = true
	if r.serving {
		g.serving[r.id] = true
	}
	for _, peer := range r.peers {
		g.peers[peer] = true
	}
}

// record records what a resource was before the plan, and what then does with its group.
func (s *disruption) record(r priorObject, then func(*group)) {
	if s == nil || !r.complete() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.group(r.kind, r.bundle)
	g.record(r)
	if s.unplaced[r.kind][r.id] {
		g.create(r.id, nil)
		g.unplaced = true
	}
	then(g)
}

// observed records what a Read has observed.
func (s *disruption) observed(r priorObject) { s.record(r, func(*group) {}) }

// kept records a resource that the plan keeps.
func (s *disruption) kept(r priorObject, diags *diag.Diagnostics) {
	s.record(r, func(g *group) {
		g.kept[r.id] = true
		g.checkTwice(r.id, diags)
		g.checkPeers(diags)
	})
}

// destroyed records a resource that the plan destroys.
func (s *disruption) destroyed(r priorObject, diags *diag.Diagnostics) {
	s.record(r, func(g *group) {
		g.removed[r.id] = true
		g.checkTwice(r.id, diags)
	})
	s.replaced(r, "", diags)
}

// replaced records a resource that the plan replaces with another one; by is "" if it is destroyed.
func (s *disruption) replaced(r priorObject, by string, diags *diag.Diagnostics) {
	s.record(r, func(g *group) {
		g.destroyed[r.id] = true
		if by != "" {
			g.created[by] = true
		}
		g.check(diags)
		g.checkPeers(diags)
	})
}

// created records a resource that the plan creates. If the run has already seen the resource, it
// is replaced: Terraform plans a requested replacement, or that of a tainted resource, as if it
// did not exist yet. peers are the members that it names, by identity; nil if they are not known. A bundle that is not
// known yet (nil) is that of the resource with the same identity, if the run sees one before or after this.
func (s *disruption) created(kind, id string, bundle *pki.Bundle, peers []string, diags *diag.Diagnostics) {
	if s == nil || id == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.groupsOf(kind, id, bundle) {
		g.create(id, peers)
		g.unplaced = g.unplaced || bundle == nil
		g.check(diags)
		g.checkPeers(diags)
	}
}

// groupsOf returns the group of a resource that the plan creates. If its bundle is not known, these are the groups that
// know the identity, and others are to take the resource over when they see it.
func (s *disruption) groupsOf(kind, id string, bundle *pki.Bundle) []*group {
	if bundle != nil {
		return []*group{s.group(kind, bundle)}
	}
	if s.unplaced == nil {
		s.unplaced = map[string]map[string]bool{}
	}
	if s.unplaced[kind] == nil {
		s.unplaced[kind] = map[string]bool{}
	}
	s.unplaced[kind][id] = true
	var out []*group
	for _, g := range s.groups {
		if g.kind == kind && g.known[id] {
			out = append(out, g)
		}
	}
	return out
}

// create records a member or a replica that the plan creates.
func (g *group) create(id string, peers []string) {
	if g.serving[id] {
		g.destroyed[id] = true
	}
	g.known[id] = true
	g.created[id] = true
	if peers != nil {
		g.joins[id] = peers
	}
}

// checkTwice rejects a plan that destroys one resource and keeps another one of the same identity: the destroy would
// remove what the other one describes. The state has both if a key was renamed without a moved block, and the apply was
// cut off, or limited to the new key, before the destroy of the old one had found out.
func (g *group) checkTwice(id string, diags *diag.Diagnostics) {
	if !g.removed[id] || !g.kept[id] {
		return
	}
	delete(g.removed, id) // one error is enough
	g.refuse(diags, "Two resources describe "+id, "the plan destroys one of them and keeps the other. The destroy would "+
		"remove what the other one describes.",
		"take the one that the plan destroys out of the state (terraform state rm, with its address), then plan again. A "+
			"deposed object leaves only with its resource: take that out of the state and import it again.")
}

// checkPeers rejects a member that would be created beside the cluster of its bundle: it names none of those that serve
// and stay, so the apply, which sees no resource that does not change, could bootstrap another cluster. Members that
// this run has not seen yet count if others name them: resources are planned in any order.
func (g *group) checkPeers(diags *diag.Diagnostics) {
	stay := map[string]bool{}
	for id := range g.serving {
		if !g.destroyed[id] {
			stay[addressOfResource(id)] = true
		}
	}
	if len(stay) == 0 {
		return
	}
	for id := range g.peers {
		if !g.known[id] {
			stay[addressOfResource(id)] = true
		}
	}
	for id, peers := range g.joins {
		if slices.ContainsFunc(peers, func(peer string) bool { return stay[addressOfResource(peer)] }) {
			continue
		}
		delete(g.joins, id) // one error is enough
		diags.AddAttributeError(path.Root("peers"), "The plan creates an etcd member beside its cluster",
			fmt.Sprintf("Cause: peers of %s names none of the members of the same bundle that serve: %s.\nUnchanged: nothing "+
				"was changed.\nNext step: name all members in peers, with the addresses that they have now; a member that moves "+
				"is moved by an apply before. For another cluster, use another kube_pki_bundle.", id,
				strings.Join(slices.Sorted(maps.Keys(g.serving)), ", ")))
	}
}

// addressOfResource returns the address in an identity.
func addressOfResource(id string) string {
	_, address, _ := strings.Cut(strings.TrimSuffix(id, ")"), " (")
	return address
}

// check rejects the plan if none of the serving ones stays. A peer without a resource in this
// run counts as staying.
func (g *group) check(diags *diag.Diagnostics) {
	for id := range g.serving {
		if !g.destroyed[id] {
			return
		}
	}
	for id := range g.peers {
		if !g.known[id] {
			return
		}
	}
	who := strings.Join(slices.Sorted(maps.Keys(g.serving)), ", ")
	renamed := len(g.created) > 0 && maps.Equal(g.serving, g.created)
	another := ""
	if g.unplaced {
		another = " To create another cluster with another bundle on these machines, destroy this one first, in an apply " +
			"of its own."
	}
	switch {
	case len(g.serving) == 0:
	case renamed && len(g.destroyed) == len(g.created) && len(g.serving) > 1:
		g.refuse(diags, "The plan replaces all "+g.kind, fmt.Sprintf("all serving ones would be destroyed and "+
			"created again with the same identity: %s.", who),
			"if keys of a for_each were renamed, add a moved block for each (moved { from = …[\"OLD\"], to = "+
				"…[\"NEW\"] }); if you want to replace them, use two applies, so that at least one keeps serving: "+
				"first some of them (terraform apply -replace=… -target=…), then the rest."+another)
	case len(g.created) > 0:
		moved := ""
		if renamed {
			moved = "if only the key was renamed, add a moved block (moved { from = …[\"OLD\"], to = …[\"NEW\"] }). " +
				"Otherwise, "
		}
		g.refuse(diags, "The plan replaces all "+g.kind, fmt.Sprintf("none of the serving ones would remain: %s.", who),
			moved+"use two applies, so that at least one keeps serving: change or replace some of them first (for "+
				"example with -target), and the rest when these serve. To replace a single one, add another one "+
				"first. If one is tainted because its create failed, and serves by now: "+problem.Untaint+another)
	case g.protected:
		g.refuse(diags, "The plan destroys all "+g.kind, fmt.Sprintf("removing all of %s ends the cluster, and "+
			"deletion_protection is enabled.", who), pki.AllowDeletion)
	}
}

func (g *group) refuse(diags *diag.Diagnostics, summary, cause, next string) {
	diags.AddAttributeError(path.Root("host"), summary, "Cause: "+problem.Block(cause)+"\nUnchanged: nothing was "+
		"changed.\nNext step: "+next)
}
