package client

import (
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
)

// wholeDatabaseTimeout limits requests that read or write a whole database: some seconds
// per GiB on a slow disk, and etcd advises against more than 8 GiB.
const wholeDatabaseTimeout = 10 * time.Minute

// Disarm disarms an alarm. The request goes through the raft log, so afterwards every
// member has disarmed it.
func (c *Clients) Disarm(ctx context.Context, address string, a membership.Alarm) error {
	return c.Call(ctx, address, ChangeTimeout, func(ctx context.Context, member *clientv3.Client) error {
		_, err := member.AlarmDisarm(ctx,
			&clientv3.AlarmMember{MemberID: a.Member, Alarm: pb.AlarmType(pb.AlarmType_value[a.Name])})
		return err
	})
}

// Compact drops the history before the member's current revision, and returns when the
// member at that address has deleted it. It returns false if there was no history: nothing
// was written since the last compaction.
//
// The API server compacts its own history every five minutes, but not now: its compactor
// begins with a write (compact_rev_key), which is refused. The revision itself stays
// readable, so watches that have kept up, and paged lists at that revision, continue. A
// watch that lags behind it gets the same error as after any compaction, "too old", and
// lists again; as there are no writes, it has had time to catch up.
func (c *Clients) Compact(ctx context.Context, address string) (bool, error) {
	s, err := c.status(ctx, address)
	if err != nil {
		return false, err
	}
	err = c.Call(ctx, address, wholeDatabaseTimeout, func(ctx context.Context, member *clientv3.Client) error {
		_, err := member.Compact(ctx, s.Header.Revision, clientv3.WithCompactPhysical())
		return err
	})
	if SameError(err, rpctypes.ErrCompacted) {
		return false, nil
	}
	return err == nil, err
}

// Defragment rewrites the database of the member at an address. The member does not answer
// while it runs.
func (c *Clients) Defragment(ctx context.Context, address string) error {
	return c.Call(ctx, address, wholeDatabaseTimeout, func(ctx context.Context, member *clientv3.Client) error {
		_, err := member.Defragment(ctx, address)
		return err
	})
}

// EnableDowngrade has the cluster validate a downgrade to a minor version ("3.5"), and then work
// as that version: the leader lowers the cluster version, and each member the version of its
// data. It changes nothing if a downgrade is enabled already.
func (c *Clients) EnableDowngrade(ctx context.Context, address, minor string) error {
	err := c.Call(ctx, address, ChangeTimeout, func(ctx context.Context, member *clientv3.Client) error {
		if _, err := member.Downgrade(ctx, clientv3.DowngradeValidate, minor); err != nil {
			return err
		}
		_, err := member.Downgrade(ctx, clientv3.DowngradeEnable, minor)
		return err
	})
	if SameError(err, rpctypes.ErrDowngradeInProcess) {
		return nil
	}
	return err
}

// CancelDowngrade ends a downgrade, if one is enabled.
func (c *Clients) CancelDowngrade(ctx context.Context, address string) error {
	err := c.Call(ctx, address, ChangeTimeout, func(ctx context.Context, member *clientv3.Client) error {
		_, err := member.Downgrade(ctx, clientv3.DowngradeCancel, "")
		return err
	})
	if SameError(err, rpctypes.ErrNoInflightDowngrade) {
		return nil
	}
	return err
}

// Position is how much of the cluster's log a member has.
type Position struct {
	Term     uint64
	Index    uint64 // of the last entry that it knows to be committed
	Revision int64
	Learner  bool
}

// Position asks the member at an address. It needs no quorum.
func (c *Clients) Position(ctx context.Context, address string) (Position, error) {
	s, err := c.status(ctx, address)
	if err != nil {
		return Position{}, err
	}
	return Position{
		Term: s.RaftTerm, Index: s.RaftIndex, Revision: s.Header.Revision, Learner: s.IsLearner,
	}, nil
}
