package membership

import (
	"crypto/sha1" //nolint:gosec // as etcd does
	"encoding/binary"
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/release"
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

// EndsUpgrade reports whether the removal of a member ends an upgrade to a minor version: all others run it, and the
// cluster, whose version is agreed ("3.5"), has waited for this one. A downgrade keeps the older version on purpose.
func (v View) EndsUpgrade(leaving uint64, minor, agreed string) bool {
	others := Except(v.Members, leaving)
	from, ok := release.AgreedMinor(agreed)
	to, known := release.AgreedMinor(minor)
	return ok && known && from < to && v.Downgrade == "" && len(others) > 0 &&
		!slices.ContainsFunc(others, func(m Member) bool { return MinorReported(m.Version) != minor })
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
