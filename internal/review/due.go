package review

import (
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
)

// dueKinds are the types of resources that may be due, in the order of their dependencies: what a resource depends
// on is part of each plan that targets it.
var dueKinds = []string{
	"kube_etcd_member", "kube_control_plane_endpoint", "kube_control_plane_replica", nodeBootstrapKind, "kube_kubeconfig",
	"kube_etcd_client_certificate",
	drillKind,
}

// Due returns the addresses of the resources that an apply may change without a person, although a plan as a whole
// is for one: what somebody has changed waits, and what is due does not. It returns one group for each type, in an
// order in which they can be applied. There are none if the plan may be applied as it is, or says too little.
func Due(p NamedPlan, policy Policy, now time.Time) [][]string {
	if v := Judge(p, policy, now); v.Automatic || v.Class == ClassNone {
		return nil
	}
	due := p.due(policy, now)
	var groups [][]string
	for _, kind := range dueKinds {
		var group []string
		for _, c := range p.Plan.scrutiny.changes {
			if _, ok := due[c.address]; ok && c.kind == kind {
				group = append(group, c.address)
			}
		}
		if len(group) > 0 {
			groups = append(groups, distinct(group))
		}
	}
	return groups
}

// JudgePart judges a plan that was made with -target of what is due in a complete plan, before that. Nothing may
// change in it but what was due there, in the same class: the complete plan is what shows how many machines change,
// and what serves meanwhile. That it is partial is no objection.
func JudgePart(part, complete NamedPlan, policy Policy, now time.Time) Verdict {
	due := complete.due(policy, now)
	var reasons []string
	for _, c := range part.Plan.scrutiny.changes {
		if class, ok := due[c.address]; !ok || class != c.class {
			reasons = append(reasons, code(c.address)+": it is not due in the complete plan, or for another reason")
		}
	}
	return part.judge(reasons, complete.Plan, policy, now)
}

// due returns the changes of a complete plan that the policy allows, by address: each class whose limits they keep,
// all of them together. A resource with an objection is not among them.
func (p NamedPlan) due(policy Policy, now time.Time) map[string]Class {
	s := p.Plan.scrutiny
	if p.Err != nil || !s.done || s.obscure || p.Plan.Errored || p.Plan.Partial {
		return nil
	}
	changes := slices.DeleteFunc(slices.Clone(s.changes), func(c scrutinized) bool {
		return c.untimely(now) != "" || s.objects(c.address) || strings.ContainsFunc(c.address, unicode.IsControl)
	})
	machines := machinesOf(changes)
	due := classesOf(slices.DeleteFunc(changes, func(c scrutinized) bool {
		return len(policy.limit(c.class, len(machines[c.class]), now)) > 0
	}))
	if len(p.Plan.interruptions(due, policy)) > 0 {
		maps.DeleteFunc(due, func(_ string, class Class) bool { return class == ClassRepair })
	}
	if len(p.Plan.interruptions(due, policy)) > 0 { // etcd has no quorum
		return nil
	}
	return due
}

// objects reports whether there is an objection to a resource.
func (s scrutiny) objects(address string) bool {
	return slices.ContainsFunc(s.objections, func(o string) bool { return strings.HasPrefix(o, code(address)+": ") })
}
