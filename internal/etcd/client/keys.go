package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Limits of a page of keys.
const (
	PageKeys    = 500 // the largest number in one answer; if values are large, fewer are requested
	MaxPage     = 64 << 20
	pageTimeout = 30 * time.Second
)

// AnsweringFirst returns addresses with those first whose member returns a member list.
func (c *Clients) AnsweringFirst(ctx context.Context, addresses []string) []string {
	answers := c.memberLists(ctx, addresses)
	silent := func(a string) bool { return answers[a].listErr != nil }
	answer := func(a string) bool { return answers[a].listErr == nil }
	return slices.Concat(slices.DeleteFunc(slices.Clone(addresses), silent),
		slices.DeleteFunc(slices.Clone(addresses), answer))
}

// Read reads page after page, all at the revision of the first page.
func (c *Clients) Read(
	ctx context.Context, addresses []string, prefix string, see func(key string, value []byte),
) error {
	key, end := prefix, clientv3.GetPrefixRangeEnd(prefix)
	if prefix == "" {
		key = "\x00" // the lowest possible key
	}
	limit, revision := int64(PageKeys), int64(0)
	for {
		page, err := c.page(ctx, addresses, key, clientv3.WithRange(end), clientv3.WithLimit(limit),
			clientv3.WithRev(revision))
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
		key = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00" // the next possible key
	}
}

// page queries one member after another until one answers.
func (c *Clients) page(
	ctx context.Context, addresses []string, key string, options ...clientv3.OpOption,
) (*clientv3.GetResponse, error) {
	reasons := []error{ErrNoAnswer}
	for _, address := range addresses {
		var page *clientv3.GetResponse
		err := c.Call(ctx, address, pageTimeout, func(ctx context.Context, member *clientv3.Client) (err error) {
			page, err = member.Get(ctx, key, options...)
			return err
		})
		if err == nil || !Transient(err) || ctx.Err() != nil {
			return page, err
		}
		reasons = append(reasons, fmt.Errorf("%s: %w", address, err))
	}
	return nil, errors.Join(reasons...)
}
