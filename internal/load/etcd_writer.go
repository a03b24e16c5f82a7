package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

const (
	// putRate is per second: the writer checks acknowledged writes, it is not load.
	putRate = 20
	// keysPerPage bounds what one range request brings.
	keysPerPage = 1000
)

// etcdWriter writes keys directly into etcd, to one member after the other.
type etcdWriter struct {
	members *etcdMembers
	prefix  string
	ledger  *ledger
}

func (p *etcdWriter) work(ctx context.Context) {
	answers := context.WithoutCancel(ctx)
	pace(ctx, putRate,
		func(n int) {
			key := fmt.Sprintf("%s%d", p.prefix, n)
			p.ledger.wrote(key, p.put(answers, n, key))
		},
		func(int) { p.ledger.wrote("", errNotSent) })
}

func (p *etcdWriter) put(ctx context.Context, n int, key string) error {
	endpoints := p.members.endpoints()
	if len(endpoints) == 0 {
		return errors.New("etcd has no endpoints")
	}
	return p.members.ask(ctx, endpoints[n%len(endpoints)], func(ctx context.Context, conn *grpc.ClientConn) error {
		_, err := pb.NewKVClient(conn).Put(ctx, &pb.PutRequest{Key: []byte(key), Value: []byte(key)})
		return err
	})
}

// end is the first key after those with the prefix.
func (p *etcdWriter) end() []byte {
	end := []byte(p.prefix)
	end[len(end)-1]++
	return end
}

// keys reads all keys of the run linearizably. It retries until the list is
// complete.
func (p *etcdWriter) keys(ctx context.Context) (map[string]bool, error) {
	keys := map[string]bool{}
	err := retry(ctx, func(ctx context.Context) error {
		return p.members.askAny(ctx, func(ctx context.Context, conn *grpc.ClientConn) error {
			clear(keys)
			return collect(ctx, pb.NewKVClient(conn), []byte(p.prefix), p.end(), keys)
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read keys of etcd: %w", err)
	}
	return keys, nil
}

// lost lists the acknowledged keys that are missing.
func (p *etcdWriter) lost(ctx context.Context) ([]string, error) {
	written := p.ledger.acknowledged()
	keys, err := p.keys(ctx)
	if err != nil {
		return nil, err
	}
	return without(written, keys), nil
}

// collect adds the keys from one to before another, page by page.
func collect(ctx context.Context, kv pb.KVClient, from, end []byte, into map[string]bool) error {
	for {
		page, err := kv.Range(ctx, &pb.RangeRequest{Key: from, RangeEnd: end, Limit: keysPerPage, KeysOnly: true})
		if err != nil {
			return err
		}
		for _, found := range page.Kvs {
			into[string(found.Key)] = true
			from = append(bytes.Clone(found.Key), 0)
		}
		if !page.More {
			return nil
		}
	}
}

// clean deletes the keys of the run.
func (p *etcdWriter) clean(ctx context.Context) error {
	return p.members.askAny(ctx, func(ctx context.Context, conn *grpc.ClientConn) error {
		_, err := pb.NewKVClient(conn).DeleteRange(ctx, &pb.DeleteRangeRequest{Key: []byte(p.prefix), RangeEnd: p.end()})
		return err
	})
}
