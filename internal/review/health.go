package review

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// answer has the attributes of a kube_control_plane that a comment needs.
type answer struct {
	Healthy   *bool    `json:"healthy"`
	Issues    []string `json:"issues"`
	VirtualIP struct {
		Address string `json:"address"`
		Holder  string `json:"holder"`
	} `json:"virtual_ip"`
	Balancers map[string]struct {
		seenMachine
		HAProxy    string `json:"haproxy"`
		Keepalived string `json:"keepalived"`
		Backends   map[string]struct {
			Status string `json:"status"`
		} `json:"backends"`
	} `json:"balancers"`
	Replicas map[string]seenReplica `json:"replicas"`
	Etcd     struct {
		Members map[string]seenMember `json:"members"`
	} `json:"etcd_cluster"`
}

// seenMachine has the attributes that every component reports about its machine.
type seenMachine struct {
	Address   string `json:"address"`
	Reachable *bool  `json:"reachable"` // nil: it was not queried
}

type seenReplica struct {
	seenMachine
	Version    string `json:"version"`
	Registered *bool  `json:"registered"`
	Components map[string]struct {
		Healthy *bool  `json:"healthy"`
		Health  string `json:"health"`
	} `json:"components"`
}

type seenMember struct {
	seenMachine
	Version string `json:"version"`
	Healthy *bool  `json:"healthy"`
	Leader  bool   `json:"leader"`
	Learner bool   `json:"learner"`
	Trouble string `json:"trouble"`
}

// addHealth adds the result of a data source to its control plane. The data source may be in
// any module. It is matched by the virtual IP and the members' machines.
func (p *Plan) addHealth(a answer) {
	for i := range p.Planes {
		plane := &p.Planes[i]
		if !plane.isOf(a) {
			continue
		}
		plane.Asked = true
		plane.addUnreached(a)
		for j := range plane.Endpoints {
			plane.Endpoints[j].take(a)
		}
		for j := range plane.Members {
			plane.Members[j].take(a.Etcd.Members[plane.Members[j].Name])
		}
		for j := range plane.Replicas {
			plane.Replicas[j].take(a.Replicas[plane.Replicas[j].Name])
		}
	}
}

// isOf reports whether a result is about this control plane.
func (p *Plane) isOf(a answer) bool {
	endpoint := slices.ContainsFunc(p.Endpoints, func(e Endpoint) bool { return e.Name == a.VirtualIP.Address })
	member := slices.ContainsFunc(p.Members, func(m Member) bool {
		seen, ok := a.Etcd.Members[m.Name]
		return ok && m.Machine != "" && seen.Address == m.Machine
	})
	return endpoint || member
}

// addUnreached records the machines that did not answer, with the reason.
func (p *Plane) addUnreached(a answer) {
	var machines []seenMachine
	for _, b := range a.Balancers {
		machines = append(machines, b.seenMachine)
	}
	for _, m := range a.Etcd.Members {
		machines = append(machines, m.seenMachine)
	}
	for _, r := range a.Replicas {
		machines = append(machines, r.seenMachine)
	}
	p.Unreached = map[string]string{}
	for _, m := range machines {
		if m.Reachable == nil || *m.Reachable || m.Address == "" {
			continue
		}
		p.Unreached[m.Address] = ""
		for _, issue := range a.Issues {
			if strings.HasPrefix(issue, "machine "+m.Address+" with ") {
				_, p.Unreached[m.Address], _ = strings.Cut(issue, ": ")
			}
		}
	}
}

func (e *Endpoint) take(a answer) {
	if e.Name != a.VirtualIP.Address {
		return
	}
	e.Asked, e.Holder, e.Backends = true, a.VirtualIP.Holder, map[string]string{}
	for name, backend := range a.Balancers[e.Holder].Backends {
		e.Backends[name] = backend.Status
	}
	for _, b := range a.Balancers {
		reached := b.Reachable != nil && *b.Reachable
		e.Impaired = e.Impaired || !reached || b.HAProxy != "active" || b.Keepalived != "active"
	}
}

// take adds what was observed of a member. A member that was not observed, such as a new one,
// stays unchanged.
func (m *Member) take(seen seenMember) {
	if seen.Healthy == nil {
		return
	}
	m.Version = cmp.Or(seen.Version, m.Version)
	m.Healthy, m.Leader, m.Learner, m.Trouble = seen.Healthy, seen.Leader, seen.Learner, seen.Trouble
}

func (r *Replica) take(seen seenReplica) {
	if seen.Registered == nil {
		return
	}
	r.Version, r.Registered = cmp.Or(seen.Version, r.Version), seen.Registered
	for _, name := range slices.Sorted(maps.Keys(seen.Components)) {
		if c := seen.Components[name]; c.Healthy != nil && !*c.Healthy {
			r.Unhealthy = append(r.Unhealthy, fmt.Sprintf("%s: %s", name, c.Health))
		}
	}
}
