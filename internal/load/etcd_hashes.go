package load

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
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// hashRounds is how often members are queried again because a compaction ran between their
	// answers. A compaction runs every five minutes.
	hashRounds = 3
	// applyTimeout is how long a member may take to apply the entries that others have.
	applyTimeout = 10 * time.Second
)

// Hashes are the hashes of every member at the same revision.
type Hashes struct {
	Revision int64
	Members  []MemberHash // all members that etcd lists
}

// MemberHash is the answer of one member.
type MemberHash struct {
	Name      string
	Hash      uint32
	Compacted int64 // the hash covers later revisions than this
	Err       error // set if there is no answer
}

// Agree reports whether all members answered with the same hash. A member that did
// not answer does not agree.
func (h Hashes) Agree() bool {
	silent := func(m MemberHash) bool { return m.Err != nil }
	return len(h.Members) > 0 && !h.Differ() && !slices.ContainsFunc(h.Members, silent)
}

// Differ reports whether two members have different data.
func (h Hashes) Differ() bool {
	different := map[MemberHash]bool{}
	for _, m := range h.Members {
		if m.Err == nil {
			different[MemberHash{Hash: m.Hash, Compacted: m.Compacted}] = true
		}
	}
	return len(different) > 1
}

// crossed reports whether a compaction ran between the answers, so that they are not
// comparable.
func (h Hashes) crossed() bool {
	compacted := map[int64]bool{}
	for _, m := range h.Members {
		if errors.Is(m.Err, rpctypes.ErrCompacted) {
			return true
		}
		if m.Err == nil {
			compacted[m.Compacted] = true
		}
	}
	return len(compacted) > 1
}

// String returns one line.
func (h Hashes) String() string {
	var all []string
	for _, m := range h.Members {
		if m.Err != nil {
			all = append(all, fmt.Sprintf("%s did not answer (%v)", m.Name, m.Err))
		} else {
			all = append(all, fmt.Sprintf("%s %08x", m.Name, m.Hash))
		}
	}
	verdict := "not every etcd member answered"
	switch {
	case h.Agree():
		verdict = "etcd's members agree"
	case h.Differ():
		verdict = "ETCD'S MEMBERS DIFFER"
	}
	return fmt.Sprintf("%s at revision %d: %s", verdict, h.Revision, strings.Join(all, ", "))
}

// hashes queries every member of the cluster, not only the known endpoints, for its hash at one
// revision.
func (m *etcdMembers) hashes(ctx context.Context) (h Hashes, err error) {
	for range hashRounds {
		if h, err = m.compare(ctx); err != nil {
			return h, fmt.Errorf("compare members of etcd: %w", err)
		}
		if !h.crossed() {
			break
		}
	}
	return h, nil
}

func (m *etcdMembers) compare(ctx context.Context) (Hashes, error) {
	var list []*pb.Member
	var h Hashes
	err := retry(ctx, func(ctx context.Context) error {
		return m.callAny(ctx, func(ctx context.Context, member *clientv3.Client) error {
			answer, err := member.MemberList(ctx)
			if err != nil {
				return err
			}
			list = answer.Members
			now, err := member.Get(ctx, "/", clientv3.WithCountOnly())
			if err != nil {
				return err
			}
			h.Revision = now.Header.Revision
			return nil
		})
	})
	if err != nil {
		return h, err
	}
	h.Members = make([]MemberHash, len(list))
	var asked sync.WaitGroup
	for i, member := range list {
		asked.Go(func() { h.Members[i] = m.hash(ctx, member, h.Revision) })
	}
	asked.Wait()
	slices.SortFunc(h.Members, func(a, b MemberHash) int { return strings.Compare(a.Name, b.Name) })
	return h, nil
}

// hash queries one member, which may first have to catch up to revision.
func (m *etcdMembers) hash(ctx context.Context, member *pb.Member, revision int64) MemberHash {
	h := MemberHash{Name: member.Name}
	if len(member.ClientURLs) == 0 {
		h.Name = fmt.Sprintf("%x", member.ID)
		h.Err = errors.New("it has never been started")
		return h
	}
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	_ = wait.PollUntilContextCancel(ctx, retryInterval, true, func(ctx context.Context) (bool, error) {
		h.Err = m.call(ctx, member.ClientURLs[0], func(ctx context.Context, client *clientv3.Client) error {
			answer, err := client.HashKV(ctx, member.ClientURLs[0], revision)
			if err == nil {
				h.Hash, h.Compacted = answer.Hash, answer.CompactRevision
			}
			return err
		})
		return !errors.Is(h.Err, rpctypes.ErrFutureRev), nil
	})
	return h
}
