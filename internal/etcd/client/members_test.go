package client

import (
	"context"
	"crypto/tls"
	"net"
	"net/http/httptest"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// electing is a stand-in for a member whose leader changes while it reads: no test can make a real one do
// that at the right moment.
type electing struct {
	pb.UnimplementedClusterServer

	elections int
	asked     int
}

func (e *electing) MemberList(context.Context, *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	if e.asked++; e.asked <= e.elections {
		return nil, rpctypes.ErrGRPCLeaderChanged
	}
	return &pb.MemberListResponse{Header: &pb.ResponseHeader{ClusterId: 7}}, nil
}

// TestMemberListAfterAnElection: one election is not a lost quorum, and several are.
func TestMemberListAfterAnElection(t *testing.T) {
	web := httptest.NewTLSServer(nil) // for its certificate
	defer web.Close()
	for elections, want := range []int{1, 2, 2} { // requests
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		member := &electing{elections: elections}
		server := grpc.NewServer(grpc.Creds(credentials.NewServerTLSFromCert(&web.TLS.Certificates[0])))
		pb.RegisterClusterServer(server, member)
		go func() { _ = server.Serve(listener) }()
		c := New(&tls.Config{InsecureSkipVerify: true}, //nolint:gosec // the stand-in's certificate
			func(ctx context.Context, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "tcp", listener.Addr().String())
			})
		v, err := c.MemberList(t.Context(), "10.0.0.1")
		c.Close()
		server.Stop()
		if (err == nil) != (elections < 2) || err == nil && v.ClusterID != 7 || member.asked != want {
			t.Errorf("%d elections: cluster %d, %v, after %d requests", elections, v.ClusterID, err, member.asked)
		}
	}
}
