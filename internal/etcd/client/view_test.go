package client

import (
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
)

// reporting returns what a member reports of a downgrade.
func reporting(id, applied uint64, storage string, info *pb.DowngradeInfo) answer {
	return answer{status: &clientv3.StatusResponse{
		Header: &pb.ResponseHeader{MemberId: id}, Leader: 1, Version: "3.6.16", RaftAppliedIndex: applied,
		StorageVersion: storage, DowngradeInfo: info,
	}}
}

// TestDowngradeReported: the member with the newest entries decides, and one that runs 3.5 says nothing.
func TestDowngradeReported(t *testing.T) {
	enabled, none := &pb.DowngradeInfo{Enabled: true, TargetVersion: "3.5.0"}, &pb.DowngradeInfo{}
	nonsense, cancelled := &pb.DowngradeInfo{Enabled: true, TargetVersion: "x"}, &pb.DowngradeInfo{TargetVersion: "3.5.0"}
	for _, c := range []struct {
		name          string
		first, second answer
		want, storage string // of the first
	}{
		{"none", reporting(1, 5, "3.6.0", none), reporting(2, 5, "3.6.0", none), "", "3.6"},
		{"enabled", reporting(1, 5, "3.5.0", enabled), reporting(2, 5, "3.6.0", enabled), "3.5", "3.5"},
		{"one lags behind", reporting(1, 6, "3.6.0", enabled), reporting(2, 5, "3.6.0", none), "3.5", "3.6"},
		{"the other one lags behind", reporting(1, 5, "3.6.0", enabled), reporting(2, 6, "3.6.0", none), "", "3.6"},
		{"the first runs 3.5", reporting(1, 9, "", nil), reporting(2, 5, "3.5.0", enabled), "3.5", ""},
		{"the last runs 3.5", reporting(1, 5, "3.5.0", enabled), reporting(2, 9, "", nil), "3.5", "3.5"},
		{"all run 3.5", reporting(1, 5, "", nil), reporting(2, 5, "", nil), "", ""},
		{"nonsense", reporting(1, 5, "x", nonsense), reporting(2, 5, "", nil), "", ""},
		{"cancelled", reporting(1, 5, "3.6.0", cancelled), reporting(2, 5, "", nil), "", "3.6"},
	} {
		v := membership.View{Members: []membership.Member{
			{ID: 1, ClientURLs: []string{"https://10.0.0.1:2379"}}, {ID: 2, ClientURLs: []string{"https://10.0.0.2:2379"}},
		}}
		got := assemble(v, map[string]answer{"10.0.0.1": c.first, "10.0.0.2": c.second})
		if got.Downgrade != c.want || got.Members[0].Storage != c.storage {
			t.Errorf("%s: downgrade to %q, data of %q", c.name, got.Downgrade, got.Members[0].Storage)
		}
	}
}
