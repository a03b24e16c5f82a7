package client

import (
	"context"
	"errors"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"
)

// hostile is a stand-in for a compromised member, whose replies are empty. Its list is complete if it is set.
type hostile struct {
	pb.UnimplementedClusterServer
	pb.UnimplementedMaintenanceServer
	pb.UnimplementedKVServer

	list *pb.MemberListResponse
}

func (h *hostile) MemberList(context.Context, *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	if h.list != nil {
		return h.list, nil
	}
	return &pb.MemberListResponse{}, nil
}

func (*hostile) MemberAdd(context.Context, *pb.MemberAddRequest) (*pb.MemberAddResponse, error) {
	return &pb.MemberAddResponse{Header: &pb.ResponseHeader{}}, nil
}

func (*hostile) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	return &pb.StatusResponse{}, nil
}

func (*hostile) MoveLeader(context.Context, *pb.MoveLeaderRequest) (*pb.MoveLeaderResponse, error) {
	return &pb.MoveLeaderResponse{}, nil // as etcd does
}

func (*hostile) Range(context.Context, *pb.RangeRequest) (*pb.RangeResponse, error) {
	return &pb.RangeResponse{More: true, Kvs: []*mvccpb.KeyValue{{Key: []byte("key")}}}, nil
}

// TestIncompleteReply: a reply without its header or its member is an error.
func TestIncompleteReply(t *testing.T) {
	const address, other = "10.0.0.1", "10.0.0.2"
	member := func(h *hostile) func(*grpc.Server) {
		return func(s *grpc.Server) {
			pb.RegisterClusterServer(s, h)
			pb.RegisterMaintenanceServer(s, h)
			pb.RegisterKVServer(s, h)
		}
	}
	list := &pb.MemberListResponse{Header: &pb.ResponseHeader{ClusterId: 7}, Members: []*pb.Member{
		{ID: 2, Name: "cp2", PeerURLs: []string{"https://" + other + ":2380"}, ClientURLs: []string{
			"https://" + other + ":2379",
		}},
	}}
	c := serve(t, map[string]func(*grpc.Server){address: member(&hostile{}), other: member(&hostile{list: list})})
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"the view":           func() error { _, err := c.View(ctx, []string{address}); return err },
		"the list in memory": func() error { _, _, err := c.MemberListInMemory(ctx, address); return err },
		"the position":       func() error { _, err := c.Position(ctx, address); return err },
		"a compaction":       func() error { _, err := c.Compact(ctx, address); return err },
		"a new learner":      func() error { _, err := c.AddLearner(ctx, address, "https://10.0.0.3:2380"); return err },
		"the keys":           func() error { return c.Read(ctx, []string{address}, "", func(string, []byte) {}) },
	} {
		if err := call(); err == nil || !strings.Contains(err.Error(), "the reply has no ") || !IsAnswer(err) &&
			!errors.Is(err, ErrNoAnswer) {
			t.Errorf("%s: %v", name, err)
		}
	}
	v, err := c.View(ctx, []string{address, other})
	if m, _ := v.ByName("cp2"); err != nil || !strings.Contains(m.Trouble, "the reply has no header") {
		t.Errorf("the view of both: %v, %+v", err, m)
	}
	if err := c.MoveLeader(ctx, address, 1); err != nil {
		t.Errorf("etcd sends no header here: %v", err)
	}
}
