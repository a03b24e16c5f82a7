package load

import (
	"context"
	"fmt"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// putRate is per second. The writer checks acknowledged writes; it is not meant to create
	// load.
	putRate = 20
	// keysPerPage limits one range request.
	keysPerPage = 1000
)

// etcdWriter writes keys directly into etcd.
type etcdWriter struct {
	members *etcdMembers // one by one, to read back and compare
	client  *etcdClient  // that writes
	prefix  string
	ledger  *ledger
}

func (p *etcdWriter) work(ctx context.Context) {
	var following sync.WaitGroup
	following.Go(func() { p.client.follow(ctx) })
	defer following.Wait()
	answers := context.WithoutCancel(ctx)
	pace(ctx, putRate,
		func(n int) {
			key := fmt.Sprintf("%s%d", p.prefix, n)
			counted, tries := countAttempts(answers)
			err := p.client.put(counted, key)
			p.ledger.wrote(key, tries.outcome(err))
		},
		func(int) { p.ledger.wrote("", outcome{err: errNotSent}) })
}

// keys reads all keys of the run linearizably. It retries until the list is
// complete.
func (p *etcdWriter) keys(ctx context.Context) (map[string]bool, error) {
	keys := map[string]bool{}
	err := retry(ctx, func(ctx context.Context) error {
		return p.members.callAny(ctx, func(ctx context.Context, member *clientv3.Client) error {
			clear(keys)
			return collect(ctx, member, p.prefix, keys)
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read keys of etcd: %w", err)
	}
	return keys, nil
}

// lost returns the acknowledged keys that are missing.
func (p *etcdWriter) lost(ctx context.Context) ([]string, error) {
	written := p.ledger.acknowledged()
	keys, err := p.keys(ctx)
	if err != nil {
		return nil, err
	}
	return without(written, keys), nil
}

// collect adds the keys with a prefix, page by page.
func collect(ctx context.Context, kv clientv3.KV, prefix string, into map[string]bool) error {
	end := clientv3.WithRange(clientv3.GetPrefixRangeEnd(prefix))
	for from := prefix; ; {
		page, err := kv.Get(ctx, from, end, clientv3.WithLimit(keysPerPage), clientv3.WithKeysOnly())
		if err != nil {
			return err
		}
		for _, pair := range page.Kvs {
			into[string(pair.Key)] = true
			from = string(pair.Key) + "\x00"
		}
		if !page.More {
			return nil
		}
	}
}

// clean deletes the keys of the run.
func (p *etcdWriter) clean(ctx context.Context) error {
	return p.members.callAny(ctx, func(ctx context.Context, member *clientv3.Client) error {
		_, err := member.Delete(ctx, p.prefix, clientv3.WithPrefix())
		return err
	})
}
