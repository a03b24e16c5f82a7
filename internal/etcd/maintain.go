package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
)

// sweepTimeout bounds what reads or writes a whole database: some seconds per
// GiB on a slow disk, and etcd advises against more than 8 GiB.
const sweepTimeout = 10 * time.Minute

// disarm takes an alarm back. It goes through the log, so that afterwards no
// member holds on to it.
func (c *conversation) disarm(ctx context.Context, address string, a membership.Alarm) error {
	return c.call(ctx, address, changeTimeout, func(ctx context.Context, member *clientv3.Client) error {
		_, err := member.AlarmDisarm(ctx, &clientv3.AlarmMember{MemberID: a.Member, Alarm: pb.AlarmType(pb.AlarmType_value[a.Name])})
		return err
	})
}

// compact drops the history before the member's present revision, and returns
// when the member at that address has deleted it. It returns false when there
// was none: nothing was written since somebody did the same.
//
// The API server does the same to its own history every five minutes, but not
// now: its compactor begins with a write (compact_rev_key), and that is
// refused. The revision itself stays readable, so watches that have kept up
// and lists that are being paged through at it go on. A watch that lags behind
// it gets what it gets after any compaction, "too old", and lists anew; as no
// writes come in, it has had time to catch up.
func (c *conversation) compact(ctx context.Context, address string) (bool, error) {
	s, err := c.status(ctx, address)
	if err != nil {
		return false, err
	}
	err = c.call(ctx, address, sweepTimeout, func(ctx context.Context, member *clientv3.Client) error {
		_, err := member.Compact(ctx, s.Header.Revision, clientv3.WithCompactPhysical())
		return err
	})
	if sameError(err, rpctypes.ErrCompacted) {
		return false, nil
	}
	return err == nil, err
}

// defragment rewrites the database of the member at an address, which answers
// nothing while that runs.
func (c *conversation) defragment(ctx context.Context, address string) error {
	return c.call(ctx, address, sweepTimeout, func(ctx context.Context, member *clientv3.Client) error {
		_, err := member.Defragment(ctx, address)
		return err
	})
}

// content is a digest of what a member holds. Two are comparable only at one
// revision and with the same history compacted.
type content struct {
	compacted int64
	hash      uint32
}

func (c *conversation) content(ctx context.Context, address string, revision int64) (content, error) {
	var out content
	err := c.call(ctx, address, sweepTimeout, func(ctx context.Context, member *clientv3.Client) error {
		answer, err := member.HashKV(ctx, address, revision)
		if err == nil {
			out = content{answer.CompactRevision, answer.Hash}
		}
		return err
	})
	return out, err
}

// compare says whose data differs from that of the others among the given
// members, in words, or "". comparable is false when that cannot be told at
// this moment: one of them is behind, or another compaction is under way.
func (c *conversation) compare(ctx context.Context, members []membership.Member) (difference string, comparable bool, err error) {
	revision, err := c.newest(ctx, members)
	if err != nil {
		return "", false, err
	}
	contents := make([]content, len(members))
	errs := inOrder(members, func(i int, m membership.Member) (err error) {
		contents[i], err = c.content(ctx, m.Address(), revision)
		return err
	})
	for i, err := range errs {
		switch {
		case sameError(err, rpctypes.ErrFutureRev), sameError(err, rpctypes.ErrCompacted):
			return "", false, nil
		case err != nil:
			return "", false, fmt.Errorf("compare the data of %s: %w", members[i].Label(), err)
		case contents[i].compacted != contents[0].compacted:
			return "", false, nil
		}
	}
	return differing(members, contents), true, nil
}

// newest is the highest revision that any of the members has. At a lower one,
// what one of them has too much would not be seen.
func (c *conversation) newest(ctx context.Context, members []membership.Member) (int64, error) {
	revisions := make([]int64, len(members))
	errs := inOrder(members, func(i int, m membership.Member) error {
		s, err := c.status(ctx, m.Address())
		if err != nil {
			return fmt.Errorf("ask %s for its revision: %w", m.Label(), err)
		}
		revisions[i] = s.Header.Revision
		return nil
	})
	return slices.Max(revisions), errors.Join(errs...)
}

// inOrder calls f for every member at once and returns the errors in the order of members.
func inOrder(members []membership.Member, f func(i int, m membership.Member) error) []error {
	errs := make([]error, len(members))
	var group sync.WaitGroup
	for i, m := range members {
		group.Go(func() { errs[i] = f(i, m) })
	}
	group.Wait()
	return errs
}

// differing names the members by what they hold, when that is not the same.
func differing(members []membership.Member, contents []content) string {
	if !slices.ContainsFunc(contents, func(other content) bool { return other != contents[0] }) {
		return ""
	}
	var words []string
	for i, m := range members {
		words = append(words, fmt.Sprintf("%s has hash %d", m.Label(), contents[i].hash))
	}
	return strings.Join(words, ", ")
}
