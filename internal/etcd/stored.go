package etcd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

const (
	pageKeys    = 500      // of one answer, at most
	pageBytes   = 64 << 20 // the same; where keys are large, fewer of them are asked for
	pageTimeout = 30 * time.Second
)

// Stored shows everything that the cluster holds under a prefix, in the order
// of keys and as of one moment: see is called once for each key. It is asked of
// any of the hosts that has a member with a quorum behind it. see must not keep
// a value; nothing else does, and nothing prints one.
func (c *Clusters) Stored(ctx context.Context, hosts map[string]*host.Host, b *pki.Bundle, prefix string, see func(key string, value []byte)) error {
	conv, err := c.named(b.ClusterID).converseThrough(b, slices.Collect(maps.Values(hosts)))
	if err != nil {
		return err
	}
	defer conv.Close()
	err = conv.stored(ctx, conv.answering(ctx, hostAddresses(hosts)), prefix, see)
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case sameError(err, rpctypes.ErrCompacted):
		return &problem.Problem{
			Summary: "etcd not read to the end", Cause: "what is below " + prefix + " was compacted while it was read, so the rest of that moment is gone",
			Unchanged: problem.Nothing, Next: "apply again", Err: err,
		}
	}
	return &problem.Problem{
		Summary: "etcd not read", Cause: "what is below " + prefix + " could not be read: " + err.Error(),
		Unchanged: problem.Nothing, Next: "bring back a quorum of the etcd members, and the machines through which they are reached, then apply again", Err: err,
	}
}

// answering puts those of the addresses first that answer at once.
func (c *conversation) answering(ctx context.Context, addresses []string) []string {
	answers := c.lists(ctx, addresses)
	silent := func(a string) bool { return answers[a].listErr != nil }
	answer := func(a string) bool { return answers[a].listErr == nil }
	return slices.Concat(slices.DeleteFunc(slices.Clone(addresses), silent), slices.DeleteFunc(slices.Clone(addresses), answer))
}

// stored reads page after page, all at the revision of the first.
func (c *conversation) stored(ctx context.Context, addresses []string, prefix string, see func(key string, value []byte)) error {
	next := &pb.RangeRequest{Key: []byte(prefix), RangeEnd: prefixEnd(prefix), Limit: pageKeys}
	if prefix == "" {
		next.Key = []byte{0} // the first key there can be
	}
	for {
		page, err := c.page(ctx, addresses, next)
		switch {
		case status.Code(err) == codes.ResourceExhausted && next.Limit > 1:
			next.Limit /= 2
			continue
		case err != nil:
			return err
		}
		for _, kv := range page.Kvs {
			see(string(kv.Key), kv.Value)
		}
		if !page.More || len(page.Kvs) == 0 {
			return nil
		}
		if next.Revision == 0 {
			next.Revision = page.Header.Revision
		}
		next.Key = append(slices.Clone(page.Kvs[len(page.Kvs)-1].Key), 0) // the first one behind it
	}
}

// page asks one member after the other until one answers.
func (c *conversation) page(ctx context.Context, addresses []string, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	reasons := []error{errNoAnswer}
	for _, address := range addresses {
		var page *pb.RangeResponse
		err := c.call(ctx, address, pageTimeout, func(ctx context.Context, conn *grpc.ClientConn) (err error) {
			page, err = pb.NewKVClient(conn).Range(ctx, r, grpc.MaxCallRecvMsgSize(pageBytes))
			return err
		})
		if err == nil || !transient(err) || ctx.Err() != nil {
			return page, err
		}
		reasons = append(reasons, fmt.Errorf("%s: %w", address, err))
	}
	return nil, errors.Join(reasons...)
}

// prefixEnd is the key behind all keys of a prefix, as etcd's ranges want it.
func prefixEnd(prefix string) []byte {
	end := []byte(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i] < 0xff {
			end[i]++
			return end[:i+1]
		}
	}
	return []byte{0} // there is none: to the end
}
