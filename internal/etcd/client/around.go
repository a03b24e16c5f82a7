package client

import (
	"context"
	"path"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// reads are the calls of etcd's API that change nothing. Every other call is a change, so that a
// call that this list does not know is one too.
var reads = []string{
	"Range",
	"LeaseTimeToLive", "LeaseLeases",
	"MemberList",
	"Status", "Hash", "HashKV",
	"AuthStatus", "Authenticate", "UserGet", "UserList", "RoleGet", "RoleList",
}

// changes reports whether a call changes a member or the cluster. call is the last part of its
// method.
func changes(call string, request any) bool {
	switch r := request.(type) {
	case *pb.AlarmRequest:
		return r.Action != pb.AlarmRequest_GET
	case *pb.DowngradeRequest:
		return r.Action != pb.DowngradeRequest_VALIDATE
	case *pb.TxnRequest:
		return slices.ContainsFunc(slices.Concat(r.Success, r.Failure), func(op *pb.RequestOp) bool {
			return op.GetRequestRange() == nil
		})
	}
	return !slices.Contains(reads, call)
}

// aroundChanges calls around for each changing call to the member at an address.
func aroundChanges(address string, around func(address, summary string) (ended func())) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker,
		opts ...grpc.CallOption,
	) error {
		if call := path.Base(method); around != nil && changes(call, req) {
			defer around(address, "etcd "+call)()
		}
		return invoke(ctx, method, req, reply, conn, opts...)
	}
}
