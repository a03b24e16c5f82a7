package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
)

// dataHash is a digest of the data of a member. Two digests are comparable only at the
// same revision and with the same compacted history.
type dataHash struct {
	compacted int64
	hash      uint32
}

func (c *Clients) hash(ctx context.Context, address string, revision int64) (dataHash, error) {
	var out dataHash
	err := c.Call(ctx, address, wholeDatabaseTimeout, func(ctx context.Context, member *clientv3.Client) error {
		answer, err := member.HashKV(ctx, address, revision)
		if err == nil {
			out = dataHash{answer.CompactRevision, answer.Hash}
		}
		return err
	})
	return out, err
}

// CompareData describes which of the given members have data that differs from that of the
// others; it returns "" if none has. comparable is false if this cannot be determined now:
// a member lags behind, or another compaction is in progress.
func (c *Clients) CompareData(
	ctx context.Context, members []membership.Member) (difference string, comparable bool, err error,
) {
	revision, err := c.newestRevision(ctx, members)
	if err != nil {
		return "", false, err
	}
	contents := make([]dataHash, len(members))
	errs := forEach(members, func(i int, m membership.Member) (err error) {
		contents[i], err = c.hash(ctx, m.Address(), revision)
		return err
	})
	for i, err := range errs {
		switch {
		case SameError(err, rpctypes.ErrFutureRev), SameError(err, rpctypes.ErrCompacted):
			return "", false, nil
		case err != nil:
			return "", false, fmt.Errorf("compare the data of %s: %w", members[i].Label(), err)
		case contents[i].compacted != contents[0].compacted:
			return "", false, nil
		}
	}
	return differences(members, contents), true, nil
}

// newestRevision returns the highest revision of the given members. At a lower revision,
// surplus data of a member would not be detected.
func (c *Clients) newestRevision(ctx context.Context, members []membership.Member) (int64, error) {
	revisions := make([]int64, len(members))
	errs := forEach(members, func(i int, m membership.Member) error {
		s, err := c.status(ctx, m.Address())
		if err != nil {
			return fmt.Errorf("get the revision of %s: %w", m.Label(), err)
		}
		revisions[i] = s.Header.Revision
		return nil
	})
	return slices.Max(revisions), errors.Join(errs...)
}

// forEach calls f for all members in parallel and returns the errors in the order of
// members.
func forEach(members []membership.Member, f func(i int, m membership.Member) error) []error {
	errs := make([]error, len(members))
	var group sync.WaitGroup
	for i, m := range members {
		group.Go(func() { errs[i] = f(i, m) })
	}
	group.Wait()
	return errs
}

// differences groups the members by their data, if it is not the same.
func differences(members []membership.Member, contents []dataHash) string {
	if !slices.ContainsFunc(contents, func(other dataHash) bool { return other != contents[0] }) {
		return ""
	}
	var words []string
	for i, m := range members {
		words = append(words, fmt.Sprintf("%s has hash %d", m.Label(), contents[i].hash))
	}
	return strings.Join(words, ", ")
}

// ErrListsDiffer means that members have different member lists.
var ErrListsDiffer = errors.New("the member lists of the members differ")

// RequireSameLists compares the lists that the members have in memory.
func (c *Clients) RequireSameLists(ctx context.Context, v membership.View) error {
	wrong := forEach(v.Members, func(_ int, m membership.Member) error {
		if !m.Healthy {
			return nil // the member that the upgrade repairs
		}
		own, err := c.ownMemberList(ctx, m.Address())
		if err != nil {
			return fmt.Errorf("%w: %s does not return one: %w", ErrListsDiffer, m.Label(), err)
		}
		if got, want := membership.Roles(own), membership.Roles(v); got != want {
			return fmt.Errorf("%w: %s lists %s, but the cluster lists %s", ErrListsDiffer, m.Label(), got, want)
		}
		return nil
	})
	return errors.Join(wrong...)
}

// ownMemberList returns the list that one member has in memory.
func (c *Clients) ownMemberList(ctx context.Context, address string) (membership.View, error) {
	v, _, err := c.MemberListInMemory(ctx, address)
	return v, err
}
