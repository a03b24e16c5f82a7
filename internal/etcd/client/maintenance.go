package client

import (
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
)

// wholeDatabaseTimeout bounds what reads or writes a whole database: some seconds per
// GiB on a slow disk, and etcd advises against more than 8 GiB.
const wholeDatabaseTimeout = 10 * time.Minute

// Disarm takes an alarm back. It goes through the log, so that afterwards no
// member holds on to it.
func (c *Clients) Disarm(ctx context.Context, address string, a membership.Alarm) error {
	return c.Call(ctx, address, ChangeTimeout, func(ctx context.Context, member *clientv3.Client) error {
		_, err := member.AlarmDisarm(ctx, &clientv3.AlarmMember{MemberID: a.Member, Alarm: pb.AlarmType(pb.AlarmType_value[a.Name])})
		return err
	})
}

// Compact drops the history before the member's present revision, and returns
// when the member at that address has deleted it. It returns false when there
// was none: nothing was written since somebody did the same.
//
// The API server does the same to its own history every five minutes, but not
// now: its compactor begins with a write (compact_rev_key), and that is
// refused. The revision itself stays readable, so watches that have kept up
// and lists that are being paged through at it go on. A watch that lags behind
// it gets what it gets after any compaction, "too old", and lists anew; as no
// writes come in, it has had time to catch up.
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

// Defragment rewrites the database of the member at an address, which answers
// nothing while that runs.
func (c *Clients) Defragment(ctx context.Context, address string) error {
	return c.Call(ctx, address, wholeDatabaseTimeout, func(ctx context.Context, member *clientv3.Client) error {
		_, err := member.Defragment(ctx, address)
		return err
	})
}
