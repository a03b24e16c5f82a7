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

// survival tracks what a plan does to the members or replicas of each cluster, as far as the
// plan shows it. It rejects a plan that would leave none of the serving ones: replacing all of
// them at once destroys the cluster and bootstraps another one. The apply checks the same
// against the machines.
type survival struct {
	mu     sync.Mutex
	groups map[string]*group // by kind and cluster ID
}

// survives returns where a plan's effects are recorded. It returns nil once a change of the run
// has begun, because the machines are the source of truth from then on.
func (s *session) survives() *survival {
	if s == nil || s.versions.hasBegun() {
		return nil
	}
	return &s.survival
}

// group is the members, or the replicas, of one cluster.
type group struct {
	kind      string // "etcd members"
	protected bool
	serving   map[string]bool // by identity: in the state, and observed as serving
	leaving   map[string]bool // the serving ones that the plan destroys or replaces
	coming    map[string]bool // created by the plan, including replacements
	known     map[string]bool // seen as a resource of this run, serving or not
	peers     map[string]bool // named by a resource, with or without a resource of their own
}

// resourceID identifies a member or a replica, independent of its Terraform address.
func resourceID(name, address string) string { return name + " (" + address + ")" }

func (s *survival) group(kind string, bundle *pki.Bundle) *group {
	if s.groups == nil {
		s.groups = map[string]*group{}
	}
	key := identity(kind, bundle.ClusterID)
	g, ok := s.groups[key]
	if !ok {
		g = &group{
			kind: kind, serving: map[string]bool{}, leaving: map[string]bool{}, coming: map[string]bool{},
			known: map[string]bool{}, peers: map[string]bool{},
		}
		s.groups[key] = g
	}
	g.protected = bundle.DeletionProtected()
	return g
}

// resident is what is known of one resource before the plan.
type resident struct {
	kind    string
	id      string
	bundle  *pki.Bundle
	serving bool     // a voting member, or a replica in rotation
	peers   []string // the other members or replicas that it names
}

func (r resident) complete() bool { return r.bundle != nil && r.id != "" }

// meet records what a resource was before the plan.
func (g *group) meet(r resident) {
	g.known[r.id] = true
	if r.serving {
		g.serving[r.id] = true
	}
	for _, peer := range r.peers {
		g.peers[peer] = true
	}
}

// exists records what a Read has observed.
func (s *survival) exists(r resident) {
	if s == nil || !r.complete() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.group(r.kind, r.bundle).meet(r)
}

// stays records a resource that the plan keeps.
func (s *survival) stays(r resident) { s.exists(r) }

// leaves records a resource that the plan destroys.
func (s *survival) leaves(r resident, diags *diag.Diagnostics) { s.plan(r, "", diags) }

// replaced records a resource that the plan replaces with another one.
func (s *survival) replaced(r resident, by string, diags *diag.Diagnostics) { s.plan(r, by, diags) }

func (s *survival) plan(r resident, by string, diags *diag.Diagnostics) {
	if s == nil || !r.complete() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.group(r.kind, r.bundle)
	g.meet(r)
	g.leaving[r.id] = true
	if by != "" {
		g.coming[by] = true
	}
	g.judge(diags)
}

// comes records a resource that the plan creates. If the run has already seen the resource, it
// is replaced: Terraform plans a requested replacement, or that of a tainted resource, as if it
// did not exist yet.
func (s *survival) comes(kind, id string, bundle *pki.Bundle, diags *diag.Diagnostics) {
	if s == nil || bundle == nil || id == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.group(kind, bundle)
	if g.serving[id] {
		g.leaving[id] = true
	}
	g.known[id] = true
	g.coming[id] = true
	g.judge(diags)
}

// judge rejects the plan if none of the serving ones stays. A peer without a resource in this
// run counts as staying.
func (g *group) judge(diags *diag.Diagnostics) {
	for id := range g.serving {
		if !g.leaving[id] {
			return
		}
	}
	for id := range g.peers {
		if !g.known[id] {
			return
		}
	}
	who := strings.Join(slices.Sorted(maps.Keys(g.serving)), ", ")
	renamed := len(g.coming) > 0 && maps.Equal(g.serving, g.coming)
	switch {
	case len(g.serving) == 0:
	case renamed && len(g.leaving) == len(g.coming) && len(g.serving) > 1:
		g.refuse(diags, "The plan replaces all "+g.kind, fmt.Sprintf("all serving ones would be destroyed and created again with the same identity: %s.", who),
			"if keys of a for_each were renamed, add a moved block for each (moved { from = …[\"OLD\"], to = …[\"NEW\"] }); "+
				"if you want to replace them, use two applies, so that at least one keeps serving: first some of them (terraform apply -replace=… -target=…), then the rest.")
	case len(g.coming) > 0:
		g.refuse(diags, "The plan replaces all "+g.kind, fmt.Sprintf("none of the serving ones would remain: %s.", who),
			"use two applies, so that at least one keeps serving: change or replace some of them first (for example with -target), and the rest when these serve. "+
				"To replace a single one, add another one first.")
	case g.protected:
		g.refuse(diags, "The plan destroys all "+g.kind, fmt.Sprintf("removing all of %s ends the cluster, and deletion_protection is enabled.", who), pki.AllowDeletion)
	}
}

func (g *group) refuse(diags *diag.Diagnostics, summary, cause, next string) {
	diags.AddAttributeError(path.Root("host"), summary, "Cause: "+problem.Block(cause)+"\nUnchanged: nothing was changed.\nNext step: "+next)
}
