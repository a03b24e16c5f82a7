package client

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
)

// entriesAtOnce is how many requests AppendEntries sends at once.
const entriesAtOnce = 64

// AppendEntries appends entries to the raft log that change nothing: requests for the list of alarms, which etcd sends
// through the log as those that raise one. The address is that of a member.
func (c *Clients) AppendEntries(ctx context.Context, address string, count int, limit time.Duration) error {
	return c.Call(ctx, address, limit, func(ctx context.Context, member *clientv3.Client) error {
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(entriesAtOnce)
		for range count {
			if ctx.Err() != nil {
				break
			}
			group.Go(func() error {
				_, err := member.AlarmList(ctx)
				return err
			})
		}
		return group.Wait()
	})
}
