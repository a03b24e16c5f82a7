package review

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// group identifies an etcd cluster, or the servers of an endpoint. Those without a number are one in each module.
type group struct {
	module string
	number int
}

func (r Resource) group() group {
	if r.Group > 0 {
		return group{number: r.Group}
	}
	return group{module: r.module}
}

func (r Resource) in(module string) bool { return r.module == module }

// number numbers the etcd clusters and the endpoints, by which a comment tells them apart. What an apply creates is
// counted to what it will belong to. A reduced plan has the numbers, and not the values from which they follow.
func (p *Plan) number() {
	whole := p.whole()
	clusters, others := whole.clusterNumbers()
	servers := whole.serverNumbers()
	for i := range p.ControlPlanes {
		plane := &p.ControlPlanes[i]
		for j := range plane.Members {
			m := &plane.Members[j]
			m.Group, m.Others = clusters[m.Address], others[m.Address]
		}
		for j := range plane.Replicas {
			plane.Replicas[j].Group = servers[plane.Replicas[j].Address]
		}
	}
}

// clusterNumbers returns the number of the cluster of each member, and how many machines in the peers of its cluster
// have no member in the plan.
func (p ControlPlane) clusterNumbers() (numbers, others map[string]int) {
	numbers, others = map[string]int{}, map[string]int{}
	for i, members := range joinUnknown(clustersOf(p.Members)) {
		counted := slices.DeleteFunc(slices.Clone(members), func(m Member) bool { return m.Action == Create })
		if len(counted) == 0 {
			counted = slices.Clone(members)
		}
		for j := range counted {
			counted[j].peers = maps.Clone(counted[j].peers)
			maps.DeleteFunc(counted[j].peers, func(name, _ string) bool { // its address is known only after the apply
				return slices.ContainsFunc(members, func(m Member) bool { return m.Machine == "" && m.Name == name })
			})
		}
		n := p.others(counted)
		for _, m := range members {
			numbers[m.Address], others[m.Address] = i+1, n
		}
	}
	return numbers, others
}

// joinUnknown adds members whose peers are not known, maybe only before the apply, to the cluster of their module, if
// it has only one.
func joinUnknown(clusters [][]Member) [][]Member {
	unknown := func(c []Member) bool {
		return !slices.ContainsFunc(c, func(m Member) bool { return len(m.peers) > 0 })
	}
	for i, c := range clusters {
		if len(c) == 0 || !unknown(c) {
			continue
		}
		var at []int
		for j, other := range clusters {
			if !unknown(other) && slices.ContainsFunc(other, func(m Member) bool { return m.in(c[0].module) }) {
				at = append(at, j)
			}
		}
		if len(at) == 1 {
			clusters[at[0]], clusters[i] = append(clusters[at[0]], c...), nil
		}
	}
	return slices.DeleteFunc(clusters, func(c []Member) bool { return len(c) == 0 })
}

// serverNumbers returns the number of the endpoint of each replica. A new one may be behind the endpoint to which the
// others move. One whose endpoint is not known is behind that of its module, if it has only one.
func (p ControlPlane) serverNumbers() map[string]int {
	byEndpoint, numbers := map[behind]int{}, map[string]int{}
	add := func(r Replica, at behind) {
		if byEndpoint[at] == 0 {
			byEndpoint[at] = len(byEndpoint) + 1
		}
		numbers[r.Address] = byEndpoint[at]
	}
	inModule := map[string][]int{}
	for _, r := range p.Replicas {
		if r.Action != Create && r.Endpoint != "" {
			add(r, r.behind())
			inModule[r.module] = distinct(append(inModule[r.module], numbers[r.Address]))
		}
	}
	for _, r := range p.Replicas {
		switch only := inModule[r.module]; {
		case r.Endpoint == "" && len(only) == 1:
			numbers[r.Address] = only[0]
		case r.Endpoint != "" && r.Action == Create:
			at := r.behind()
			i := slices.IndexFunc(p.Replicas, func(other Replica) bool {
				return other.Action != Create && other.Endpoint != "" && (at.mayBe(other.behind()) || at.mayBe(other.next))
			})
			if i >= 0 {
				at = p.Replicas[i].behind()
			}
			add(r, at)
		}
	}
	return numbers
}

// groupsIn returns the groups that have an item in a module, also with their items in other modules.
func groupsIn[T interface {
	group() group
	in(module string) bool
}](all []T, module string) [][]T {
	var order []group
	groups := map[group][]T{}
	for _, item := range all {
		g := item.group()
		groups[g] = append(groups[g], item)
		if item.in(module) && !slices.Contains(order, g) {
			order = append(order, g)
		}
	}
	var some [][]T
	for _, g := range order {
		some = append(some, groups[g])
	}
	return some
}

// clustersIn returns the etcd clusters that have a member in a module, each as a control plane.
func (p ControlPlane) clustersIn(module string) []ControlPlane {
	var all []ControlPlane
	for _, members := range groupsIn(p.Members, module) {
		all = append(all, ControlPlane{Unreached: p.Unreached, Members: members})
	}
	return all
}

// serversIn returns the servers of the endpoints that have a replica in a module, each as a control plane: with the
// members that they use, or that are on their machines.
func (p ControlPlane) serversIn(module string) []ControlPlane {
	var all []ControlPlane
	for _, replicas := range groupsIn(p.Replicas, module) {
		members := slices.DeleteFunc(slices.Clone(p.Members), func(m Member) bool {
			return !slices.ContainsFunc(replicas, func(r Replica) bool {
				return slices.Contains(r.Etcd, m.URL) || m.Machine != "" && m.Machine == r.Machine
			})
		})
		all = append(all, ControlPlane{
			Unreached: p.Unreached, Endpoints: p.Endpoints, Members: members, Replicas: replicas,
		})
	}
	return all
}

// labels returns the names of several groups, in parentheses: of the first kind by which all differ. A single one needs
// none.
func labels(groups []ControlPlane, kinds ...func(ControlPlane) string) []string {
	for _, label := range kinds {
		var all []string
		for _, g := range groups {
			if text := label(g); text != "" {
				all = append(all, " ("+text+")")
			}
		}
		if len(groups) > 1 && len(distinct(slices.Clone(all))) == len(groups) {
			return all
		}
	}
	return make([]string, len(groups))
}

// withLabel returns lines about a component with the name of its group.
func withLabel(component, label string, lines []string) []string {
	var all []string
	for _, line := range lines {
		all = append(all, component+label+strings.TrimPrefix(line, component))
	}
	return all
}

func endpointLabel(p ControlPlane) string {
	if len(p.Replicas) == 0 || p.Replicas[0].Endpoint == "" {
		return ""
	}
	return code(p.Replicas[0].Endpoint)
}

// nameLabel returns the names of a cluster's members, or else of the replicas.
func nameLabel(p ControlPlane) string {
	return p.label(func(r Resource) string { return plainName(r.Name) })
}

func addressLabel(p ControlPlane) string {
	return p.label(func(r Resource) string { return code(r.Address) })
}

func (p ControlPlane) label(text func(Resource) string) string {
	resources := p.replicas()
	if len(resources) == 0 {
		resources = p.members()
	}
	var texts []string
	for i, r := range resources {
		if i == maxItems {
			texts = append(texts, fmt.Sprintf("and %d more", len(resources)-maxItems))
			break
		}
		texts = append(texts, text(r))
	}
	return strings.Join(texts, ", ")
}
