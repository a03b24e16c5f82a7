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

// serve serves the stand-ins of members until the test ends, and returns clients that find each at its address.
func serve(t *testing.T, register map[string]func(*grpc.Server)) *Clients {
	t.Helper()
	web := httptest.NewTLSServer(nil) // for its certificate
	t.Cleanup(web.Close)
	at := map[string]string{}
	for address, register := range register {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		server := grpc.NewServer(grpc.Creds(credentials.NewServerTLSFromCert(&web.TLS.Certificates[0])))
		register(server)
		go func() { _ = server.Serve(listener) }()
		t.Cleanup(server.Stop)
		at[net.JoinHostPort(address, "2379")] = listener.Addr().String()
	}
	c := New(&tls.Config{InsecureSkipVerify: true}, //nolint:gosec // the stand-in's certificate
		func(ctx context.Context, addr string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", at[addr])
		})
	t.Cleanup(c.Close)
	return c
}

// TestMemberListAfterAnElection: one election is not a lost quorum, and several are.
func TestMemberListAfterAnElection(t *testing.T) {
	for elections, want := range []int{1, 2, 2} { // requests
		member := &electing{elections: elections}
		c := serve(t, map[string]func(*grpc.Server){
			"10.0.0.1": func(s *grpc.Server) { pb.RegisterClusterServer(s, member) },
		})
		v, err := c.MemberList(t.Context(), "10.0.0.1")
		if (err == nil) != (elections < 2) || err == nil && v.ClusterID != 7 || member.asked != want {
			t.Errorf("%d elections: cluster %d, %v, after %d requests", elections, v.ClusterID, err, member.asked)
		}
	}
}
