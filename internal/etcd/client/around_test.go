package client

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
)

// TestAround makes calls to a member that refuses connections. The changes are announced with its
// address, the reads are not.
func TestAround(t *testing.T) {
	c := New(&tls.Config{MinVersion: tls.VersionTLS12}, func(context.Context, string) (net.Conn, error) {
		return nil, errors.New("connection refused")
	})
	defer c.Close()
	var calls []string
	c.Around = func(address, summary string) func() {
		calls = append(calls, "before "+address+" "+summary)
		return func() { calls = append(calls, "after "+address+" "+summary) }
	}
	const member = "10.0.0.1"
	ctx := t.Context()
	_, _ = c.MemberList(ctx, member)
	_, _ = c.AddLearner(ctx, member, "https://10.0.0.2:2380")
	_ = c.Promote(ctx, member, 1)
	_ = c.Remove(ctx, member, 1)
	_ = c.MoveLeader(ctx, member, 1)
	_ = c.Defragment(ctx, member)
	_ = c.Disarm(ctx, member, membership.Alarm{Member: 1, Name: "NOSPACE"})
	_ = c.EnableDowngrade(ctx, member, "3.5") // fails at the validation, which changes nothing
	_ = c.CancelDowngrade(ctx, member)
	_ = c.Call(ctx, member, RequestTimeout, func(ctx context.Context, client *clientv3.Client) error {
		_, _ = client.AlarmList(ctx)
		_, _ = client.Status(ctx, member)
		_, _ = client.Get(ctx, "key")
		_, _ = client.Put(ctx, "key", "value")
		_, err := client.Grant(ctx, 10)
		return err
	})
	var want []string
	for _, call := range []string{
		"MemberAdd", "MemberPromote", "MemberRemove", "MoveLeader", "Defragment", "Alarm", "Downgrade", "Put", "LeaseGrant",
	} {
		want = append(want, "before "+member+" etcd "+call, "after "+member+" etcd "+call)
	}
	if !slices.Equal(calls, want) {
		t.Errorf("announced are %q, want %q", calls, want)
	}
}

func TestChanges(t *testing.T) {
	for _, c := range []struct {
		call    string
		request any
		want    bool
	}{
		{"Range", &pb.RangeRequest{}, false},
		{"Txn", &pb.TxnRequest{Success: []*pb.RequestOp{
			{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{}}},
		}}, false},
		{"Txn", &pb.TxnRequest{
			Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{}}}},
			Failure: []*pb.RequestOp{
				{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{}}},
			},
		}, true},
		{"Txn", &pb.TxnRequest{Success: []*pb.RequestOp{
			{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{}}},
			{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{}}},
		}}, true},
		{"Compact", &pb.CompactionRequest{}, true},
		{"Downgrade", &pb.DowngradeRequest{Action: pb.DowngradeRequest_VALIDATE}, false},
		{"Downgrade", &pb.DowngradeRequest{Action: pb.DowngradeRequest_ENABLE}, true},
		{"AuthEnable", &pb.AuthEnableRequest{}, true},
		{"SomethingNew", nil, true},
	} {
		if got := changes(c.call, c.request); got != c.want {
			t.Errorf("%s %v changes: %v, want %v", c.call, c.request, got, c.want)
		}
	}
}
