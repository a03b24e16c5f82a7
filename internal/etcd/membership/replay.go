package membership

import (
	"crypto/sha1" //nolint:gosec // as etcd does
	"encoding/binary"
	"slices"
)

// HasInitialMembers reports whether the members are exactly those with which the cluster began: no change of members is
// in any log. etcd derives the ID of a cluster from the IDs of its first members (RaftCluster.genID).
func (v View) HasInitialMembers() bool {
	var ids []uint64
	for _, m := range v.Members {
		ids = append(ids, m.ID)
	}
	slices.Sort(ids)
	var text []byte
	for _, id := range ids {
		text = binary.BigEndian.AppendUint64(text, id)
	}
	sum := sha1.Sum(text) //nolint:gosec // the same
	return binary.BigEndian.Uint64(sum[:8]) == v.ClusterID
}

// Configuration is the members of a raft group, in any order.
type Configuration struct{ Voters, Learners []uint64 }

// Same reports whether a configuration has exactly the members of v.
func (c Configuration) Same(v View) bool {
	var voters, learners []uint64
	for _, m := range v.Members {
		if m.Learner {
			learners = append(learners, m.ID)
		} else {
			voters = append(voters, m.ID)
		}
	}
	same := func(a, b []uint64) bool {
		return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
	}
	return same(c.Voters, voters) && same(c.Learners, learners)
}
