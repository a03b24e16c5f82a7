package etcd

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

const (
	// askTimeout bounds a question to one member. etcd itself gives a
	// linearizable read up when it has no leader; a member that takes longer
	// than this is as good as silent.
	askTimeout = 3 * time.Second
	// changeTimeout bounds a membership change, which etcd itself ends after
	// 5 s plus two election timeouts.
	changeTimeout = 10 * time.Second
)

// errNoAnswer: no member gave a linearizable answer, so there is no quorum
// that can be reached.
var errNoAnswer = errors.New("no member of the cluster gives an answer that a quorum stands behind")

// asker is who asks. Where the authority's key is held elsewhere, a bundle has
// what was signed for its machine: a replica's has its API server's client only.
func asker(b *pki.Bundle) pki.Leaf {
	own, replicas := pki.EtcdHealthcheckClient(), pki.APIServerEtcdClient()
	_, asMember := b.Signed[own.Name]
	if _, asReplica := b.Signed[replicas.Name]; asReplica && !asMember {
		return replicas
	}
	return own
}

// clientTLS issues the client certificate of one process. It exists only in
// memory, and only for an hour, unless it was signed elsewhere.
func clientTLS(b *pki.Bundle, now time.Time) (*tls.Config, error) {
	pair, err := b.Issue(asker(b), now, time.Hour)
	if err != nil {
		return nil, fmt.Errorf("issue client certificate: %w", err)
	}
	certificate, err := tls.X509KeyPair([]byte(pair.Certificate), []byte(pair.PrivateKey))
	if err != nil {
		return nil, fmt.Errorf("load client certificate: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(b.Known(pki.Etcd))) {
		return nil, errors.New("the bundle's etcd CA certificate cannot be read")
	}
	return &tls.Config{Certificates: []tls.Certificate{certificate}, RootCAs: roots, MinVersion: tls.VersionTLS12}, nil
}

// conversation speaks with the members of one cluster: one client for each
// member's address, as etcdctl does with one endpoint, dialled through SSH. So it
// is known which member an answer comes from.
type conversation struct {
	tls  *tls.Config
	dial func(ctx context.Context, addr string) (net.Conn, error)

	// patience bounds a question to one member where that has to be less than
	// askTimeout; 0: it has not.
	patience time.Duration

	// maxAnswer bounds an answer in bytes where it may be larger than usual; 0: it may not.
	maxAnswer int

	mu      sync.Mutex
	members map[string]*clientv3.Client // by address
}

// patienceOr is the time for one question that usually has so much.
func (c *conversation) patienceOr(usual time.Duration) time.Duration {
	if c.patience > 0 {
		return min(c.patience, usual)
	}
	return usual
}

// Close closes the connections to all members.
func (c *conversation) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, member := range c.members {
		_ = member.Close() // nothing is lost: every call has been answered or given up
	}
	c.members = nil
}

const (
	// maxHeader bounds what a member says beside an answer: a status with its text.
	maxHeader = 64 << 10
	// maxAnswer bounds an answer that is not a page of keys.
	maxAnswer = 4 << 20
)

// member returns the client of the member at an address. It never retries: a call
// that failed may have been carried out, and who calls decides what to do about it.
func (c *conversation) member(address string) (*clientv3.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if member, ok := c.members[address]; ok {
		return member, nil
	}
	config := c.tls.Clone()
	config.ServerName = address
	member, err := clientv3.New(clientv3.Config{
		Endpoints:          []string{ClientURL(address)},
		TLS:                config,
		Logger:             zap.NewNop(),
		MaxUnaryRetries:    1,
		MaxCallRecvMsgSize: cmp.Or(c.maxAnswer, maxAnswer),
		DialOptions: []grpc.DialOption{
			grpc.WithContextDialer(c.dial),
			grpc.WithNoProxy(),
			grpc.WithMaxHeaderListSize(maxHeader),
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.5, MaxDelay: 500 * time.Millisecond},
				MinConnectTimeout: askTimeout,
			}),
		},
	})
	if err != nil {
		return nil, fmt.Errorf("connect to etcd at %s: %w", address, err)
	}
	// Its own would make a connection for each call, to choose a member by itself.
	member.Maintenance = clientv3.NewMaintenanceFromMaintenanceClient(clientv3.RetryMaintenanceClient(member, member.ActiveConnection()), member)
	if c.members == nil {
		c.members = map[string]*clientv3.Client{}
	}
	c.members[address] = member
	return member, nil
}

// call runs f against the member at an address, bounded by timeout.
func (c *conversation) call(ctx context.Context, address string, timeout time.Duration, f func(context.Context, *clientv3.Client) error) error {
	member, err := c.member(address)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.patienceOr(timeout))
	defer cancel()
	return f(ctx, member)
}

// list asks one member for the member list by a linearizable read: an answer
// proves that this member is connected to a quorum.
func (c *conversation) list(ctx context.Context, address string) (membership.View, error) {
	var v membership.View
	err := c.call(ctx, address, askTimeout, func(ctx context.Context, member *clientv3.Client) error {
		answer, err := member.MemberList(ctx)
		if err == nil {
			v = viewOf(answer.Header.ClusterId, answer.Members)
		}
		return err
	})
	return v, err
}

// memory is the list that the member at an address has in memory, and that
// member's id. It answers without the others.
func (c *conversation) memory(ctx context.Context, address string) (v membership.View, id uint64, err error) {
	err = c.call(ctx, address, askTimeout, func(ctx context.Context, member *clientv3.Client) error {
		answer, err := member.MemberList(ctx, clientv3.WithSerializable())
		if err == nil {
			v, id = viewOf(answer.Header.ClusterId, answer.Members), answer.Header.MemberId
		}
		return err
	})
	return v, id, err
}

func viewOf(cluster uint64, members []*pb.Member) membership.View {
	v := membership.View{ClusterID: cluster}
	for _, m := range members {
		v.Members = append(v.Members, membership.Member{
			ID: m.ID, Name: membership.NameReported(m.Name), PeerURLs: membership.URLsReported(m.PeerURLs), ClientURLs: membership.URLsReported(m.ClientURLs), Learner: m.IsLearner,
		})
	}
	slices.SortFunc(v.Members, func(a, b membership.Member) int {
		if order := strings.Compare(a.Name, b.Name); order != 0 {
			return order
		}
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return v
}

func (c *conversation) status(ctx context.Context, address string) (*clientv3.StatusResponse, error) {
	var answer *clientv3.StatusResponse
	err := c.call(ctx, address, askTimeout, func(ctx context.Context, member *clientv3.Client) (err error) {
		answer, err = member.Status(ctx, address)
		return err
	})
	return answer, err
}

// The membership changes, each asked of the member at an address.

func (c *conversation) addLearner(ctx context.Context, address, peerURL string) (uint64, error) {
	var id uint64
	err := c.call(ctx, address, changeTimeout, func(ctx context.Context, member *clientv3.Client) error {
		answer, err := member.MemberAddAsLearner(ctx, []string{peerURL})
		if err == nil {
			id = answer.Member.ID
		}
		return err
	})
	return id, err
}

func (c *conversation) remove(ctx context.Context, address string, id uint64) error {
	return c.call(ctx, address, changeTimeout, func(ctx context.Context, member *clientv3.Client) error {
		_, err := member.MemberRemove(ctx, id)
		return err
	})
}

func (c *conversation) promote(ctx context.Context, address string, id uint64) error {
	return c.call(ctx, address, changeTimeout, func(ctx context.Context, member *clientv3.Client) error {
		_, err := member.MemberPromote(ctx, id)
		return err
	})
}

// moveLeader must be asked of the leader itself.
func (c *conversation) moveLeader(ctx context.Context, address string, to uint64) error {
	return c.call(ctx, address, changeTimeout, func(ctx context.Context, member *clientv3.Client) error {
		_, err := member.MoveLeader(ctx, to)
		return err
	})
}

// passing lists etcd's refusals that time alone can lift: its gates on
// membership changes, and everything around an election.
var passing = []error{
	rpctypes.ErrUnhealthy, rpctypes.ErrTooManyLearners, rpctypes.ErrMemberNotEnoughStarted, rpctypes.ErrMemberLearnerNotReady,
	rpctypes.ErrNoLeader, rpctypes.ErrNotLeader, rpctypes.ErrLeaderChanged, rpctypes.ErrGRPCNotSupportedForLearner, rpctypes.ErrStopped,
	rpctypes.ErrTimeout, rpctypes.ErrTimeoutDueToLeaderFail, rpctypes.ErrTimeoutDueToConnectionLost, rpctypes.ErrTimeoutWaitAppliedIndex,
	rpctypes.ErrTooManyRequests, rpctypes.ErrNotCapable,
}

// transient reports whether a failed call may succeed when repeated.
func transient(err error) bool {
	if errors.Is(err, errNoAnswer) || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	for _, p := range passing {
		if sameError(err, p) {
			return true
		}
	}
	var known rpctypes.EtcdError
	if errors.As(err, &known) {
		return known.Code() == codes.Unavailable
	}
	return unavailable(err)
}

// sameError compares by text, as rpctypes itself does: its errors are values
// that hold a code and a text, and it does not know all of the server's.
func sameError(err, want error) bool {
	return err != nil && rpctypes.ErrorDesc(err) == rpctypes.ErrorDesc(want)
}

// unavailable reports whether a call did not get to a server that could decide.
func unavailable(err error) bool {
	var known rpctypes.EtcdError
	if errors.As(err, &known) {
		return false
	}
	code := codeOf(err)
	return code == codes.Unavailable || code == codes.DeadlineExceeded
}

// codeOf is the code of a failed call. A client returns the error of a context that
// ended as it is.
func codeOf(err error) codes.Code {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return status.FromContextError(err).Code()
	}
	return status.Code(err)
}
