package review

import (
	"maps"
	"slices"
)

// etcdCluster has the members of a control plane that are of one etcd cluster.
type etcdCluster struct {
	members []Member
	unsure  bool // the members have different peers, so some may be of another cluster
}

// etcdClusters splits the members that exist into clusters: a module may have several. Members that have a machine in
// common, as their own or as a peer's, are of one cluster.
func (p ControlPlane) etcdClusters() []etcdCluster {
	var all []etcdCluster
	for _, m := range p.Members {
		if m.Action == Create {
			continue
		}
		joined := etcdCluster{members: []Member{m}}
		all = slices.DeleteFunc(all, func(c etcdCluster) bool {
			same := slices.ContainsFunc(c.members, m.mayBeWith)
			if same {
				joined.members = append(joined.members, c.members...)
			}
			return same
		})
		joined.unsure = slices.ContainsFunc(joined.members[1:], func(other Member) bool { return !m.isWith(other) })
		all = append(all, joined)
	}
	return all
}

// machinesOfCluster returns the addresses of the machines of the member's cluster, itself included. There are none if
// its peers are not known.
func (m Member) machinesOfCluster() []string {
	if len(m.peers) == 0 {
		return nil
	}
	return distinct(append(slices.Collect(maps.Values(m.peers)), m.Machine))
}

// isWith reports whether both members have the same peers.
func (m Member) isWith(other Member) bool {
	machines := m.machinesOfCluster()
	return len(machines) > 0 && slices.Equal(machines, other.machinesOfCluster())
}

// mayBeWith reports whether both members have a machine in common, or neither has known peers.
func (m Member) mayBeWith(other Member) bool {
	machines, others := m.machinesOfCluster(), other.machinesOfCluster()
	if len(machines)+len(others) == 0 {
		return true
	}
	return slices.ContainsFunc(machines, func(address string) bool { return slices.Contains(others, address) })
}

// behind identifies the endpoint behind which a replica serves. Two may have one address, each with its own port.
type behind struct {
	address, cluster string
	port             int
}

// replicasByEndpoint splits the replicas that exist by their endpoint. One whose endpoint is not known serves alone.
func (p ControlPlane) replicasByEndpoint() [][]Replica {
	var all [][]Replica
	place := map[behind]int{}
	for _, r := range p.Replicas {
		at := behind{r.Endpoint, r.cluster, r.endpointPort}
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
