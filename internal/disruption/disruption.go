// Package disruption has the rules about what a plan does to all members, or all replicas, of a cluster. Resources are
// planned one by one, in any order; the rules judge what is known of them together.
package disruption

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Plan tracks what a plan does to the members or replicas of each cluster, as far as the
// plan shows it. It rejects a plan that would leave none of the serving ones: replacing all of
// them at once destroys the cluster and bootstraps another one. The apply checks the same
// against the machines. A nil Plan tracks nothing. What is refused is a list of problems, nothing of which was changed.
type Plan struct {
	mu     sync.Mutex
	groups map[cluster]*group
	// unplaced are the identities, by kind, of what the plan creates while it does not know the bundle yet, because it
	// changes that too.
	unplaced map[string]map[string]bool
}

// cluster is the key of a group.
type cluster struct{ kind, id string }

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

// ID identifies a member or a replica, independent of its Terraform address.
func ID(name, address string) string { return name + " (" + address + ")" }

func (p *Plan) group(kind string, bundle *pki.Bundle) *group {
	if p.groups == nil {
		p.groups = map[cluster]*group{}
	}
	key := cluster{kind, bundle.ClusterID}
	g, ok := p.groups[key]
	if !ok {
		g = &group{
			kind: kind, serving: map[string]bool{}, destroyed: map[string]bool{}, created: map[string]bool{},
			known: map[string]bool{}, peers: map[string]bool{}, joins: map[string][]string{},
			removed: map[string]bool{}, kept: map[string]bool{},
		}
		p.groups[key] = g
	}
	g.protected = bundle.DeletionProtected()
	return g
}

// Object is what is known of one resource before the plan.
type Object struct {
	Kind    string // "etcd members"
	ID      string // see the function of this name; "" while it is not known
	Bundle  *pki.Bundle
	Serving bool     // a voting member, or a replica in rotation
	Peers   []string // the other members or replicas that it names, by ID
}

func (o Object) complete() bool { return o.Bundle != nil && o.ID != "" }

// record records what a resource was before the plan.
func (g *group) record(o Object) {
	g.known[o.ID] = true
	if o.Serving {
		g.serving[o.ID] = true
	}
	for _, peer := range o.Peers {
		g.peers[peer] = true
	}
}

// record records what a resource was before the plan, and what then does with its group.
func (p *Plan) record(o Object, then func(*group) []*problem.Problem) []*problem.Problem {
	if p == nil || !o.complete() {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	g := p.group(o.Kind, o.Bundle)
	g.record(o)
	if p.unplaced[o.Kind][o.ID] {
		g.create(o.ID, nil)
		g.unplaced = true
	}
	return then(g)
}

// Observed records what a Read has observed.
func (p *Plan) Observed(o Object) {
	p.record(o, func(*group) []*problem.Problem { return nil })
}

// Serves reports whether the run has seen that the object serves.
func (p *Plan) Serves(o Object) bool {
	if p == nil || !o.complete() {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.group(o.Kind, o.Bundle).serving[o.ID]
}

// Kept records a resource that the plan keeps.
func (p *Plan) Kept(o Object) []*problem.Problem {
	return p.record(o, func(g *group) []*problem.Problem {
		g.kept[o.ID] = true
		return append(g.checkTwice(o.ID), g.checkPeers()...)
	})
}

// Destroyed records a resource that the plan destroys.
func (p *Plan) Destroyed(o Object) []*problem.Problem {
	return p.record(o, func(g *group) []*problem.Problem {
		g.removed[o.ID] = true
		return append(g.checkTwice(o.ID), g.replace(o.ID, "")...)
	})
}

// Replaced records a resource that the plan replaces with another one.
func (p *Plan) Replaced(o Object, by string) []*problem.Problem {
	return p.record(o, func(g *group) []*problem.Problem { return g.replace(o.ID, by) })
}

// Created records a resource that the plan creates. If the run has already seen the resource, it
// is replaced: Terraform plans a requested replacement, or that of a tainted resource, as if it
// did not exist yet. The peers are those that it names; nil if they are not known. A bundle that is not
// known yet (nil) is that of the resource with the same ID, if the run sees one before or after this.
func (p *Plan) Created(o Object) []*problem.Problem {
	if p == nil || o.ID == "" {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var refused []*problem.Problem
	for _, g := range p.groupsOf(o.Kind, o.ID, o.Bundle) {
		g.create(o.ID, o.Peers)
		g.unplaced = g.unplaced || o.Bundle == nil
		refused = slices.Concat(refused, g.check(), g.checkPeers())
	}
	return refused
}

// groupsOf returns the group of a resource that the plan creates. If its bundle is not known, these are the groups that
// know the identity, and others are to take the resource over when they see it.
func (p *Plan) groupsOf(kind, id string, bundle *pki.Bundle) []*group {
	if bundle != nil {
		return []*group{p.group(kind, bundle)}
	}
	if p.unplaced == nil {
		p.unplaced = map[string]map[string]bool{}
	}
	if p.unplaced[kind] == nil {
		p.unplaced[kind] = map[string]bool{}
	}
	p.unplaced[kind][id] = true
	var out []*group
	for _, g := range p.groups {
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

// replace records that a member or a replica is destroyed, and which one is created in its place; by is "" if none is.
func (g *group) replace(id, by string) []*problem.Problem {
	g.destroyed[id] = true
	if by != "" {
		g.created[by] = true
	}
	return append(g.check(), g.checkPeers()...)
}

// checkTwice rejects a plan that destroys one resource and keeps another one of the same identity: the destroy would
// remove what the other one describes. The state has both if a key was renamed without a moved block, and the apply was
// cut off, or limited to the new key, before the destroy of the old one had found out.
func (g *group) checkTwice(id string) []*problem.Problem {
	if !g.removed[id] || !g.kept[id] {
		return nil
	}
	delete(g.removed, id) // one error is enough
	return refuse("Two resources describe "+id, "the plan destroys one of them and keeps the other. The destroy would "+
		"remove what the other one describes.",
		"take the one that the plan destroys out of the state (terraform state rm, with its address), then plan again. A "+
			"deposed object leaves only with its resource: take that out of the state and import it again.")
}

// checkPeers rejects a member that would be created beside the cluster of its bundle: it names none of those that serve
// and stay, so the apply, which sees no resource that does not change, could bootstrap another cluster. Members that
// this run has not seen yet count if others name them: resources are planned in any order.
func (g *group) checkPeers() (refused []*problem.Problem) {
	stay := map[string]bool{}
	for id := range g.serving {
		if !g.destroyed[id] {
			stay[addressOf(id)] = true
		}
	}
	if len(stay) == 0 {
		return nil
	}
	for id := range g.peers {
		if !g.known[id] {
			stay[addressOf(id)] = true
		}
	}
	for id, peers := range g.joins {
		if slices.ContainsFunc(peers, func(peer string) bool { return stay[addressOf(peer)] }) {
			continue
		}
		delete(g.joins, id) // one error is enough
		refused = append(refused, &problem.Problem{
			Summary: "The plan creates an etcd member beside its cluster", Attribute: "peers", Unchanged: problem.Nothing,
			Cause: fmt.Sprintf("peers of %s names none of the members of the same bundle that serve: %s.", id,
				strings.Join(slices.Sorted(maps.Keys(g.serving)), ", ")),
			Next: "name all members in peers, with the addresses that they have now; a member that moves " +
				"is moved by an apply before. For another cluster, use another kube_pki_bundle.",
		})
	}
	return refused
}

// addressOf returns the address in an identity.
func addressOf(id string) string {
	_, address, _ := strings.Cut(strings.TrimSuffix(id, ")"), " (")
	return address
}

// check rejects the plan if none of the serving ones stays. A peer without a resource in this
// run counts as staying.
func (g *group) check() []*problem.Problem {
	for id := range g.serving {
		if !g.destroyed[id] {
			return nil
		}
	}
	for id := range g.peers {
		if !g.known[id] {
			return nil
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
		return refuse("The plan replaces all "+g.kind, fmt.Sprintf("all serving ones would be destroyed and "+
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
		return refuse("The plan replaces all "+g.kind, fmt.Sprintf("none of the serving ones would remain: %s.", who),
			moved+"use two applies, so that at least one keeps serving: change or replace some of them first (for "+
				"example with -target), and the rest when these serve. To replace a single one, add another one "+
				"first. If one is tainted because its create failed, and serves by now: "+problem.Untaint+another)
	case g.protected:
		return refuse("The plan destroys all "+g.kind, fmt.Sprintf("removing all of %s ends the cluster, and "+
			"deletion_protection is enabled.", who), pki.AllowDeletion)
	}
	return nil
}

func refuse(summary, cause, next string) []*problem.Problem {
	return []*problem.Problem{{
		Summary: summary, Attribute: "host", Cause: cause, Unchanged: problem.Nothing, Next: next,
	}}
}
