package simulated

import (
	"context"
	"encoding/json"
	"strconv"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// member answers for etcd on one machine: who the members are, and how it is.
// It holds no keys and takes no part in any agreement.
type member struct {
	pb.UnimplementedClusterServer
	pb.UnimplementedMaintenanceServer
	pb.UnimplementedKVServer
	machine *machine
}

func registerEtcd(server *grpc.Server, m *machine) {
	it := &member{machine: m}
	pb.RegisterClusterServer(server, it)
	pb.RegisterMaintenanceServer(server, it)
	pb.RegisterKVServer(server, it)
}

const clusterID = 1

// id and name are of the record that the provider has put there.
func (m *machine) member() (id uint64, name string) {
	var record struct {
		Name     string `json:"name"`
		MemberID string `json:"member_id"`
	}
	_ = json.Unmarshal([]byte(m.content("/etc/etcd/member.json")), &record) // no record: no id
	id, _ = strconv.ParseUint(record.MemberID, 16, 64)
	return id, record.Name
}

// MemberList lists the machines on which etcd runs.
func (e *member) MemberList(context.Context, *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	own, _ := e.machine.member()
	answer := &pb.MemberListResponse{Header: &pb.ResponseHeader{ClusterId: clusterID, MemberId: own}}
	for _, m := range e.machine.cluster.machines {
		if !m.active("etcd.service") {
			continue
		}
		id, name := m.member()
		answer.Members = append(answer.Members, &pb.Member{
			ID: id, Name: name, PeerURLs: []string{"https://" + m.address + ":2380"}, ClientURLs: []string{"https://" + m.address + ":2379"},
		})
	}
	return answer, nil
}

// Status is that of a follower, or of the first machine's leader.
func (e *member) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	own, _ := e.machine.member()
	leader, _ := e.machine.cluster.machines[0].member()
	e.machine.mu.Lock()
	defer e.machine.mu.Unlock()
	return &pb.StatusResponse{
		Header: &pb.ResponseHeader{ClusterId: clusterID, MemberId: own, RaftTerm: 2}, Version: e.machine.version("etcd.service"),
		DbSize: 20 << 20, DbSizeInUse: 10 << 20, DbSizeQuota: 8 << 30, Leader: leader, RaftIndex: 1000, RaftAppliedIndex: 1000, RaftTerm: 2,
	}, nil
}

// Range finds nothing.
func (e *member) Range(context.Context, *pb.RangeRequest) (*pb.RangeResponse, error) {
	return &pb.RangeResponse{Header: &pb.ResponseHeader{ClusterId: clusterID, Revision: 1}}, nil
}
