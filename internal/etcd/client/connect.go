package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

const (
	// maxHeader limits the metadata of an answer, such as the text of a status.
	maxHeader = 64 << 10
	// maxAnswer limits an answer by default. Pages of keys may be larger.
	maxAnswer = 4 << 20
)

// Options are the options of a connection to one member.
type Options struct {
	TLS  *tls.Config // Connect sets the server name
	Dial func(ctx context.Context, addr string) (net.Conn, error)

	// Timeout is the time for one attempt to connect; 0 means RequestTimeout.
	Timeout time.Duration

	// MaxAnswer is the largest answer in bytes; 0 means maxAnswer.
	MaxAnswer int

	Around func(address, summary string) (ended func()) // as in Clients
}

// Connect returns a client of the member at a client URL, like etcdctl with a single endpoint.
// The client never retries: a failed call may have taken effect, so the caller decides what to
// do. Calls to an unreachable member fail immediately.
func Connect(clientURL string, o Options) (*clientv3.Client, error) {
	at, err := url.Parse(clientURL)
	if err != nil {
		return nil, fmt.Errorf("connect to etcd: %w", err)
	}
	config := o.TLS.Clone()
	config.ServerName = at.Hostname()
	member, err := clientv3.New(clientv3.Config{
		Endpoints:          []string{clientURL},
		TLS:                config,
		Logger:             zap.NewNop(),
		MaxUnaryRetries:    1,
		MaxCallRecvMsgSize: cmp.Or(o.MaxAnswer, maxAnswer),
		DialOptions: []grpc.DialOption{
			grpc.WithContextDialer(o.Dial),
			grpc.WithChainUnaryInterceptor(failFast, aroundChanges(at.Hostname(), o.Around), requireComplete),
			grpc.WithNoProxy(),
			grpc.WithMaxHeaderListSize(maxHeader),
			grpc.WithConnectParams(grpc.ConnectParams{ // a member that comes back is used immediately
				Backoff: backoff.Config{
					BaseDelay: 50 * time.Millisecond, Multiplier: 1.5,
					MaxDelay: 500 * time.Millisecond,
				},
				MinConnectTimeout: cmp.Or(o.Timeout, RequestTimeout),
			}),
		},
	})
	if err != nil {
		return nil, fmt.Errorf("connect to etcd at %s: %w", at.Hostname(), err)
	}
	// The default Maintenance opens a new connection for each call.
	member.Maintenance = clientv3.NewMaintenanceFromMaintenanceClient(
		clientv3.RetryMaintenanceClient(member, member.ActiveConnection()), member)
	return member, nil
}

// failFast makes calls to an unreachable member fail immediately. By default,
// clientv3 waits for a connection until the call times out.
func failFast(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn,
	invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	return invoke(ctx, method, req, reply, conn, append(opts, grpc.WaitForReady(false))...)
}

// requireComplete makes a call fail whose reply is incomplete.
func requireComplete(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn,
	invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	if err := invoke(ctx, method, req, reply, conn, opts...); err != nil {
		return err
	}
	return incomplete(reply)
}

// incomplete returns an error if a reply lacks a message that every etcd server sends and that this package
// reads: clientv3 returns replies unchanged. etcd itself sends some other replies without a header, such as that
// of MoveLeader.
func incomplete(reply any) error {
	switch r := reply.(type) {
	case *pb.RangeResponse, *pb.MemberListResponse, *pb.StatusResponse:
		if r.(interface{ GetHeader() *pb.ResponseHeader }).GetHeader() == nil {
			return errors.New("the reply has no header")
		}
	case *pb.MemberAddResponse:
		if r.Member == nil {
			return errors.New("the reply has no member")
		}
	}
	return nil
}
