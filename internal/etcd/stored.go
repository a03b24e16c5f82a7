package etcd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

const (
	pageKeys    = 500 // of one answer, at most; where keys are large, fewer are asked for
	pageBytes   = 64 << 20
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
	conv.maxAnswer = pageBytes
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
	key, end := prefix, clientv3.GetPrefixRangeEnd(prefix)
	if prefix == "" {
		key = "\x00" // the first key there can be
	}
	limit, revision := int64(pageKeys), int64(0)
	for {
		page, err := c.page(ctx, addresses, key, clientv3.WithRange(end), clientv3.WithLimit(limit), clientv3.WithRev(revision))
		switch {
		case status.Code(err) == codes.ResourceExhausted && limit > 1:
			limit /= 2
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
		if revision == 0 {
			revision = page.Header.Revision
		}
		key = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00" // the first one behind it
	}
}

// page asks one member after the other until one answers.
func (c *conversation) page(ctx context.Context, addresses []string, key string, options ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	reasons := []error{errNoAnswer}
	for _, address := range addresses {
		var page *clientv3.GetResponse
		err := c.call(ctx, address, pageTimeout, func(ctx context.Context, member *clientv3.Client) (err error) {
			page, err = member.Get(ctx, key, options...)
			return err
		})
		if err == nil || !transient(err) || ctx.Err() != nil {
			return page, err
		}
		reasons = append(reasons, fmt.Errorf("%s: %w", address, err))
	}
	return nil, errors.Join(reasons...)
}
