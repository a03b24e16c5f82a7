package etcd

import (
	"slices"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/volume"
)

// TestMembersOnVolumes: which volumes keep an empty cluster from being bootstrapped.
func TestMembersOnVolumes(t *testing.T) {
	member := volume.Identity{ClusterID: "a", Name: "cp2", MemberID: "b", State: volume.Member}
	released, removed, unknown, other := member, member, member, member
	released.State, released.Name = volume.Released, "cp3"
	removed.State, unknown.MemberID, other.ClusterID = volume.Removed, "", "c"
	unmounted := map[string][]volume.Unmounted{
		"cp1 (10.0.0.11)": nil,
		"cp2 (10.0.0.12)": {{Device: "/dev/sdc", Identity: removed}, {Device: "/dev/sdb", Identity: member}},
		"cp3 (10.0.0.13)": {
			{Device: "/dev/sdb", Identity: released},
			{Device: "/dev/sdc", Identity: unknown},
			{Device: "/dev/sdd", Identity: other},
		},
	}
	want := []string{`member "cp2" on /dev/sdb of cp2 (10.0.0.12)`, `member "cp3" on /dev/sdb of cp3 (10.0.0.13)`}
	if got := membersOnVolumes("a", unmounted); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
