package client

import (
	"context"
	"slices"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
)

// MemberList reads the member list from one member with a linearizable read. An
// answer proves that this member is connected to a quorum. An election ends the reads that
// wait for the former leader (ErrLeaderChanged), and has succeeded by then, so such a read is repeated
// once: it is no lost quorum, for which callers refuse to go on.
func (c *Clients) MemberList(ctx context.Context, address string) (membership.View, error) {
	var v membership.View
	begun, atOnce := time.Now(), c.Leaderless.lately(address)
	err := c.Call(ctx, address, RequestTimeout, func(ctx context.Context, member *clientv3.Client) error {
		if atOnce {
			ctx = clientv3.WithRequireLeader(ctx)
		}
		answer, err := member.MemberList(ctx)
		if SameError(err, rpctypes.ErrLeaderChanged) {
			answer, err = member.MemberList(ctx)
		}
		if err == nil {
			v = viewOf(answer.Header.ClusterId, answer.Members)
		}
		return err
	})
	c.Leaderless.note(address, err, time.Since(begun))
	return v, err
}

// MemberListInMemory returns the member list that the member at an address has in
// memory, and that member's ID. The read is serializable: it needs no quorum.
func (c *Clients) MemberListInMemory(ctx context.Context, address string) (v membership.View, id uint64, err error) {
	err = c.Call(ctx, address, RequestTimeout, func(ctx context.Context, member *clientv3.Client) error {
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
			ID: m.ID, Name: membership.NameReported(m.Name), PeerURLs: membership.URLsReported(m.PeerURLs),
			ClientURLs: membership.URLsReported(m.ClientURLs), Learner: m.IsLearner,
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

func (c *Clients) status(ctx context.Context, address string) (*clientv3.StatusResponse, error) {
	var answer *clientv3.StatusResponse
	err := c.Call(ctx, address, RequestTimeout, func(ctx context.Context, member *clientv3.Client) (err error) {
		answer, err = member.Status(ctx, address)
		return err
	})
	return answer, err
}

// Membership changes. Each request goes to the member at an address.

// AddLearner requests the member at an address to add a learner, and returns its ID.
func (c *Clients) AddLearner(ctx context.Context, address, peerURL string) (uint64, error) {
	var id uint64
	err := c.Call(ctx, address, ChangeTimeout, func(ctx context.Context, member *clientv3.Client) error {
		answer, err := member.MemberAddAsLearner(ctx, []string{peerURL})
		if err == nil {
			id = answer.Member.ID
		}
		return err
	})
	return id, err
}

// Remove requests the member at an address to remove a member.
func (c *Clients) Remove(ctx context.Context, address string, id uint64) error {
	return c.Call(ctx, address, ChangeTimeout, func(ctx context.Context, member *clientv3.Client) error {
		_, err := member.MemberRemove(ctx, id)
		return err
	})
}

// UpdatePeerURL requests the member at an address to change the peer URL of a voter.
func (c *Clients) UpdatePeerURL(ctx context.Context, address string, id uint64, peerURL string) error {
	return c.Call(ctx, address, ChangeTimeout, func(ctx context.Context, member *clientv3.Client) error {
		_, err := member.MemberUpdate(ctx, id, []string{peerURL})
		return err
	})
}

// Promote requests the member at an address to promote a learner.
func (c *Clients) Promote(ctx context.Context, address string, id uint64) error {
	return c.Call(ctx, address, ChangeTimeout, func(ctx context.Context, member *clientv3.Client) error {
		_, err := member.MemberPromote(ctx, id)
		return err
	})
}

// MoveLeader moves leadership to another member. The request must go to the leader itself.
func (c *Clients) MoveLeader(ctx context.Context, address string, to uint64) error {
	return c.Call(ctx, address, ChangeTimeout, func(ctx context.Context, member *clientv3.Client) error {
		_, err := member.MoveLeader(ctx, to)
		return err
	})
}
