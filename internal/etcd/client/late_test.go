package client

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
)

// late is a stand-in for a member on a busy machine: no test can make a real one late at the right moment.
type late struct {
	pb.UnimplementedClusterServer
	pb.UnimplementedMaintenanceServer

	id, leader uint64
	lateFor    int64 // so many requests for the list
	asked      atomic.Int64
}

func (l *late) MemberList(ctx context.Context, _ *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	if l.asked.Add(1) <= l.lateFor {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	list := &pb.MemberListResponse{Header: &pb.ResponseHeader{ClusterId: 7}}
	for i, address := range []string{"10.0.0.1", "10.0.0.2"} {
		list.Members = append(list.Members, &pb.Member{
			ID: uint64(i + 1), Name: []string{"cp1", "cp2"}[i],
			PeerURLs:   []string{membership.PeerURL(address)},
			ClientURLs: []string{membership.ClientURL(address)},
		})
	}
	return list, nil
}

func (l *late) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	return &pb.StatusResponse{Header: &pb.ResponseHeader{MemberId: l.id}, Version: "3.6.16", Leader: l.leader}, nil
}

// TestLateAnswer: a voter that answers late once is healthy. One that is late again, or has no leader, is not.
func TestLateAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		lateFor int64
		leader  uint64
		healthy bool
		asked   int64
	}{
		"in time":          {0, 1, true, 1},
		"late once":        {1, 1, true, 2},
		"late again":       {2, 1, false, 2},
		"without a leader": {1, 0, false, 1},
	} {
		first, second := &late{id: 1, leader: 1}, &late{id: 2, leader: c.leader, lateFor: c.lateFor}
		member := func(l *late) func(*grpc.Server) {
			return func(s *grpc.Server) {
				pb.RegisterClusterServer(s, l)
				pb.RegisterMaintenanceServer(s, l)
			}
		}
		clients := serve(t, map[string]func(*grpc.Server){"10.0.0.1": member(first), "10.0.0.2": member(second)})
		clients.Limit = 500 * time.Millisecond
		v, err := clients.View(t.Context(), []string{"10.0.0.1", "10.0.0.2"})
		if m, listed := v.ByName("cp2"); err != nil || !listed || m.Healthy != c.healthy || second.asked.Load() != c.asked {
			t.Errorf("%s: %v, healthy %t, asked %d times: %s", name, err, m.Healthy, second.asked.Load(), m.Trouble)
		}
	}
}
