package review

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// controlPlaneStatus has the attributes of a kube_control_plane that a comment needs.
type controlPlaneStatus struct {
	Healthy   *bool    `json:"healthy"`
	Issues    []string `json:"issues"`
	VirtualIP struct {
		Address string `json:"address"`
		Holder  string `json:"holder"`
	} `json:"virtual_ip"`
	Balancers map[string]struct {
		MachineStatus
		HAProxy    string `json:"haproxy"`
		Keepalived string `json:"keepalived"`
		Backends   map[string]struct {
			Status string `json:"status"`
		} `json:"backends"`
	} `json:"balancers"`
	Replicas map[string]replicaStatus `json:"replicas"`
	Etcd     struct {
		Members map[string]MemberStatus `json:"members"`
	} `json:"etcd_cluster"`
}

// MachineStatus has the attributes that every component reports about its machine.
type MachineStatus struct {
	Address   string `json:"address"`
	Reachable *bool  `json:"reachable"` // nil: it was not queried
}

// MemberStatus is what a kube_control_plane reports about an etcd member.
type MemberStatus struct {
	MachineStatus
	Version string `json:"version"`
	Healthy *bool  `json:"healthy"` // nil: not known
	Leader  bool   `json:"leader"`
	Learner bool   `json:"learner"`
	Trouble string `json:"trouble"` // why it is unhealthy
}

type replicaStatus struct {
	MachineStatus
	Version    string `json:"version"`
	Registered *bool  `json:"registered"`
	Components map[string]struct {
		Healthy *bool  `json:"healthy"`
		Health  string `json:"health"`
	} `json:"components"`
}

// addHealth adds the result of a data source to its control plane. The data source may be in
// any module. It is matched by the virtual IP and the members' machines.
func (p *Plan) addHealth(status controlPlaneStatus) {
	for i := range p.ControlPlanes {
		plane := &p.ControlPlanes[i]
		if !plane.isOf(status) {
			continue
		}
		plane.HealthKnown = true
		plane.addUnreached(status)
		for j := range plane.Endpoints {
			plane.Endpoints[j].addStatus(status)
		}
		for j := range plane.Members {
			plane.Members[j].addStatus(status.Etcd.Members[plane.Members[j].Name])
		}
		for j := range plane.Replicas {
			plane.Replicas[j].addStatus(status.Replicas[plane.Replicas[j].Name])
		}
	}
}

// isOf reports whether a status is about this control plane.
func (p *ControlPlane) isOf(status controlPlaneStatus) bool {
	endpoint := slices.ContainsFunc(p.Endpoints, func(e Endpoint) bool { return e.Name == status.VirtualIP.Address })
	member := slices.ContainsFunc(p.Members, func(m Member) bool {
		observed, ok := status.Etcd.Members[m.Name]
		return ok && m.Machine != "" && observed.Address == m.Machine
	})
	return endpoint || member
}

// addUnreached records the machines that did not answer, with the reason.
func (p *ControlPlane) addUnreached(status controlPlaneStatus) {
	var machines []MachineStatus
	for _, b := range status.Balancers {
		machines = append(machines, b.MachineStatus)
	}
	for _, m := range status.Etcd.Members {
		machines = append(machines, m.MachineStatus)
	}
	for _, r := range status.Replicas {
		machines = append(machines, r.MachineStatus)
	}
	if p.Unreached == nil {
		p.Unreached = map[string]string{}
	}
	for _, m := range machines {
		if m.Reachable == nil || *m.Reachable || m.Address == "" {
			continue
		}
		p.Unreached[m.Address] = ""
		for _, issue := range status.Issues {
			if strings.HasPrefix(issue, "machine "+m.Address+" with ") {
				_, p.Unreached[m.Address], _ = strings.Cut(issue, ": ")
			}
		}
	}
}

func (e *Endpoint) addStatus(status controlPlaneStatus) {
	if e.Name != status.VirtualIP.Address {
		return
	}
	e.Holder, e.Backends = status.VirtualIP.Holder, map[string]string{}
	e.HealthKnown = len(status.Balancers) > 0 // an external endpoint has none that could be observed
	for name, backend := range status.Balancers[e.Holder].Backends {
		e.Backends[name] = backend.Status
	}
	e.Working = map[string]bool{}
	for name, b := range status.Balancers {
		reached := b.Reachable != nil && *b.Reachable
		e.Working[name] = reached && b.HAProxy == "active" && b.Keepalived == "active"
	}
}

// addStatus adds what was observed of a member. A member that was not observed, such as a new
// one, stays unchanged. So does a namesake in another cluster.
func (m *Member) addStatus(observed MemberStatus) {
	if observed.Healthy == nil || observed.Address != m.Machine {
		return
	}
	observed.Version = cmp.Or(observed.Version, m.Version)
	m.MemberStatus = observed
}

// addStatus adds what was observed of a replica, by the rules of members.
func (r *Replica) addStatus(observed replicaStatus) {
	if observed.Registered == nil || observed.Address != r.Machine {
		return
	}
	r.Version, r.Registered, r.HealthKnown = cmp.Or(observed.Version, r.Version), observed.Registered, true
	for _, name := range slices.Sorted(maps.Keys(observed.Components)) {
		if c := observed.Components[name]; c.Healthy != nil && !*c.Healthy {
			r.Unhealthy = append(r.Unhealthy, fmt.Sprintf("%s: %s", name, c.Health))
		}
	}
}
