package review

import (
	"maps"
	"slices"
)

// etcdCluster has the members of one etcd cluster that exist.
type etcdCluster struct {
	members []Member
	others  int  // machines in their peers that have no member in the plan
	unsure  bool // some members may be of another cluster
}

// whole returns the control planes of all modules as one: an etcd cluster and the servers of an endpoint may have a
// module for each machine.
func (p Plan) whole() ControlPlane {
	all := ControlPlane{Unreached: map[string]string{}}
	for _, plane := range p.ControlPlanes {
		all.Endpoints = append(all.Endpoints, plane.Endpoints...)
		for _, m := range plane.Members {
			m.module = plane.Module
			all.Members = append(all.Members, m)
		}
		for _, r := range plane.Replicas {
			r.module = plane.Module
			all.Replicas = append(all.Replicas, r)
		}
		maps.Copy(all.Unreached, plane.Unreached)
	}
	return all
}

// etcdClusters splits the members that exist into clusters. One that its machine has lost exists in its cluster.
func (p ControlPlane) etcdClusters() []etcdCluster {
	exist := slices.DeleteFunc(slices.Clone(p.Members), func(m Member) bool { return m.Action == Create && !m.Missing })
	var all []etcdCluster
	for _, members := range clustersOf(exist) {
		all = append(all, etcdCluster{members, p.others(members), unsure(members)})
	}
	return all
}

// clustersOf splits members into clusters: a module may have several, and a cluster several modules. Members that have
// a machine in common, as their own or as a peer's, are of one cluster.
func clustersOf(members []Member) [][]Member {
	var all [][]Member
	for _, m := range members {
		joined := []Member{m}
		all = slices.DeleteFunc(all, func(c []Member) bool {
			same := slices.ContainsFunc(c, m.mayBeWith)
			if same {
				joined = append(joined, c...)
			}
			return same
		})
		all = append(all, joined)
	}
	return all
}

// unsure reports whether members may be of several clusters: their peers differ, or two have the same machine.
func unsure(members []Member) bool {
	machines := map[string]bool{}
	for _, m := range members {
		if machines[m.Machine] || len(members) > 1 && !m.isWith(members[0]) {
			return true
		}
		machines[m.Machine] = m.Machine != ""
	}
	return false
}

// others counts the machines in the peers of members that have no member in the plan. Those of members that an apply
// creates have one.
func (p ControlPlane) others(members []Member) int {
	var machines []string
	for _, m := range members {
		machines = append(machines, m.machinesOfCluster()...)
	}
	return len(slices.DeleteFunc(distinct(machines), func(address string) bool {
		return slices.ContainsFunc(p.Members, func(m Member) bool { return m.Machine == address })
	}))
}

// machinesOfCluster returns the known addresses of the machines of the member's cluster, itself included.
func (m Member) machinesOfCluster() []string {
	machines := append(slices.Collect(maps.Values(m.peers)), m.Machine)
	return slices.DeleteFunc(distinct(machines), func(address string) bool { return address == "" })
}

// isWith reports whether both members have the same peers.
func (m Member) isWith(other Member) bool {
	return len(m.peers) > 0 && len(other.peers) > 0 && slices.Equal(m.machinesOfCluster(), other.machinesOfCluster())
}

// mayBeWith reports whether both members have a machine in common, or neither in a module has known peers.
func (m Member) mayBeWith(other Member) bool {
	if len(m.peers)+len(other.peers) == 0 && m.module == other.module {
		return true
	}
	others := other.machinesOfCluster()
	return slices.ContainsFunc(m.machinesOfCluster(), func(at string) bool { return slices.Contains(others, at) })
}

// behind identifies the endpoint behind which a replica serves. Two may have one address, each with its own port.
type behind struct {
	Address string `json:"address"`
	Port    int    `json:"port"`
	Cluster string `json:"cluster_id"`
}

func (r Replica) behind() behind { return behind{r.Endpoint, r.endpointPort, r.cluster} }

// mayBe reports whether both are the same endpoint. The ID of its cluster may not be known yet.
func (b behind) mayBe(other behind) bool {
	return b == other || b == (behind{Address: other.Address, Port: other.Port})
}

// replicasByEndpoint splits the replicas that exist by their endpoint. One whose endpoint is not known serves alone.
func (p ControlPlane) replicasByEndpoint() [][]Replica {
	var all [][]Replica
	place := map[behind]int{}
	for _, r := range p.Replicas {
		at := r.behind()
		i, known := place[at]
		switch {
		case r.Action == Create:
		case known && r.Endpoint != "":
			all[i] = append(all[i], r)
		default:
			place[at] = len(all)
			all = append(all, []Replica{r})
		}
	}
	return all
}
