package simulated

import (
	"context"
	"encoding/json"
	"hash/fnv"
	"io"
	"slices"
	"strconv"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// member answers for etcd on one machine: the member list, and its status. It stores no keys
// and does not implement consensus.
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

// member returns the ID and the name in the record that the provider wrote.
func (m *machine) member() (id uint64, name string) {
	var record struct {
		Name     string `json:"name"`
		MemberID string `json:"member_id"`
	}
	_ = json.Unmarshal([]byte(m.content("/etc/etcd/member.json")), &record) // no record: no ID
	id, _ = strconv.ParseUint(record.MemberID, 16, 64)
	return id, record.Name
}

// etcdCluster returns the cluster in the record, which was derived from its members' IDs.
func (m *machine) etcdCluster() uint64 {
	var record struct {
		Cluster string `json:"etcd_cluster_id"`
	}
	_ = json.Unmarshal([]byte(m.content("/etc/etcd/member.json")), &record) // no record: no ID
	id, _ := strconv.ParseUint(record.Cluster, 16, 64)
	return id
}

// MemberList returns the machines on which etcd runs, and learners that are not started yet.
func (e *member) MemberList(context.Context, *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	own, _ := e.machine.member()
	members, _ := e.machine.cluster.members()
	if more := e.machine.listed.Load(); more != nil {
		members = append(members, more)
	}
	return &pb.MemberListResponse{
		Header:  &pb.ResponseHeader{ClusterId: e.machine.etcdCluster(), MemberId: own},
		Members: members,
	}, nil
}

// members returns the members of the cluster, and the leader.
func (c *cluster) members() (all []*pb.Member, leader uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.machines {
		peer := "https://" + m.address + ":2380"
		added, joins := c.added[peer]
		switch id, name := m.member(); {
		case m.active(unitAt[etcdPort]):
			all = append(all, &pb.Member{
				ID: id, Name: name, PeerURLs: []string{peer},
				ClientURLs: []string{"https://" + m.address + ":2379"}, IsLearner: joins && added.IsLearner,
			})
			if leader == 0 && (!joins || !added.IsLearner) {
				leader = id
			}
		case joins:
			all = append(all, added)
		}
	}
	return all, leader
}

// MemberAdd adds a learner, which is started later.
func (e *member) MemberAdd(_ context.Context, r *pb.MemberAddRequest) (*pb.MemberAddResponse, error) {
	c := e.machine.cluster
	c.mu.Lock()
	sum := fnv.New64a()
	_, _ = io.WriteString(sum, r.PeerURLs[0])
	added := &pb.Member{ID: sum.Sum64(), PeerURLs: r.PeerURLs, IsLearner: r.IsLearner}
	if c.added == nil {
		c.added = map[string]*pb.Member{}
	}
	c.added[r.PeerURLs[0]] = added
	c.mu.Unlock()
	members, _ := c.members()
	return &pb.MemberAddResponse{
		Header: &pb.ResponseHeader{ClusterId: e.machine.etcdCluster()}, Member: added,
		Members: members,
	}, nil
}

// MemberPromote makes a learner a voter. There is no data to catch up with.
func (e *member) MemberPromote(_ context.Context, r *pb.MemberPromoteRequest) (*pb.MemberPromoteResponse, error) {
	c := e.machine.cluster
	c.mu.Lock()
	for peer, added := range c.added {
		if added.ID == r.ID {
			c.added[peer] = &pb.Member{ID: added.ID, PeerURLs: added.PeerURLs}
		}
	}
	c.mu.Unlock()
	members, _ := c.members()
	return &pb.MemberPromoteResponse{Header: &pb.ResponseHeader{ClusterId: e.machine.etcdCluster()}, Members: members}, nil
}

// Status returns the status of a healthy member.
func (e *member) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	own, _ := e.machine.member()
	members, leader := e.machine.cluster.members()
	etcdCluster := e.machine.etcdCluster()
	learner := slices.ContainsFunc(members, func(m *pb.Member) bool { return m.ID == own && m.IsLearner })
	e.machine.mu.Lock()
	defer e.machine.mu.Unlock()
	return &pb.StatusResponse{
		Header: &pb.ResponseHeader{
			ClusterId: etcdCluster, MemberId: own,
			RaftTerm: 2,
		}, Version: e.machine.version(unitAt[etcdPort]),
		DbSize: 20 << 20, DbSizeInUse: 10 << 20, DbSizeQuota: 8 << 30, Leader: leader, RaftIndex: 1000,
		RaftAppliedIndex: 1000, RaftTerm: 2, IsLearner: learner,
	}, nil
}

// Range returns no keys.
func (e *member) Range(context.Context, *pb.RangeRequest) (*pb.RangeResponse, error) {
	return &pb.RangeResponse{Header: &pb.ResponseHeader{ClusterId: e.machine.etcdCluster(), Revision: 1}}, nil
}
