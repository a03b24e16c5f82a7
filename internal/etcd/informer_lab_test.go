package etcd

import (
	"context"
	"maps"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/wait"
)

const informed = "/registry/" // what an informer copies

// informer keeps a copy of keys as an API server's watch cache does: it lists them, watches from the revision of the
// list on, and lists again only if the members say that this history is gone. It is never restarted, so what it has
// after a restore is what the clients of a cluster have.
type informer struct {
	client *clientv3.Client

	mu       sync.Mutex
	keys     map[string]string
	revision int64
	lists    int
}

// inform starts an informer that ends with the test.
func (r *rig) inform() *informer {
	r.t.Helper()
	config, err := client.TLS(r.specs["cp1"].Bundle, time.Now())
	if err != nil {
		r.t.Fatal(err)
	}
	var endpoints []string
	for _, name := range everyone {
		endpoints = append(endpoints, r.specs[name].ClientURL())
	}
	c, err := clientv3.New(clientv3.Config{
		Endpoints: endpoints, TLS: config, Logger: zap.NewNop(), DialKeepAliveTime: 5 * time.Second,
		DialKeepAliveTimeout: 5 * time.Second,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	i := &informer{client: c}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		i.run(ctx)
	}()
	r.t.Cleanup(func() {
		cancel()
		<-ended
		_ = c.Close() // nothing is written with it
	})
	return i
}

func (i *informer) run(ctx context.Context) {
	for ctx.Err() == nil {
		if i.list(ctx) {
			i.watch(ctx)
		}
		_ = wait.Pause(ctx, 100*time.Millisecond) // ends early with ctx
	}
}

// list replaces the copy, and reports whether it could.
func (i *informer) list(ctx context.Context) bool {
	keys, revision, err := i.stored(ctx)
	if err != nil {
		return false
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys, i.revision = keys, revision
	i.lists++
	return true
}

// watch follows the changes until their history is gone. It goes on after all other errors.
func (i *informer) watch(ctx context.Context) {
	for ctx.Err() == nil {
		watching, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
		gone := false
		for answer := range i.client.Watch(watching, informed, clientv3.WithPrefix(), clientv3.WithRev(i.revision+1)) {
			if gone = answer.CompactRevision > 0; gone || answer.Err() != nil {
				break
			}
			i.apply(answer)
		}
		cancel()
		if gone {
			return
		}
		_ = wait.Pause(ctx, 100*time.Millisecond) // ends early with ctx
	}
}

func (i *informer) apply(answer clientv3.WatchResponse) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, event := range answer.Events {
		if event.Type == clientv3.EventTypeDelete {
			delete(i.keys, string(event.Kv.Key))
		} else {
			i.keys[string(event.Kv.Key)] = string(event.Kv.Value)
		}
		i.revision = event.Kv.ModRevision
	}
}

// stored returns what the cluster has, and at which revision.
func (i *informer) stored(ctx context.Context) (map[string]string, int64, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	answer, err := i.client.Get(ctx, informed, clientv3.WithPrefix())
	if err != nil {
		return nil, 0, err
	}
	keys := map[string]string{}
	for _, kv := range answer.Kvs {
		keys[string(kv.Key)] = string(kv.Value)
	}
	return keys, answer.Header.Revision, nil
}

// newest returns the revision of the newest value in the cluster.
func (i *informer) newest(t *testing.T) int64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	answer, err := i.client.Get(ctx, informed, clientv3.WithPrefix(),
		clientv3.WithSort(clientv3.SortByModRevision, clientv3.SortDescend), clientv3.WithLimit(1))
	if err != nil || len(answer.Kvs) != 1 {
		t.Fatalf("read the newest value: %v, %v", answer, err)
	}
	return answer.Kvs[0].ModRevision
}

// converges waits until the informer has what the cluster has.
func (i *informer) converges(t *testing.T) {
	t.Helper()
	began := time.Now()
	for {
		stored, _, err := i.stored(t.Context())
		i.mu.Lock()
		has, lists := maps.Clone(i.keys), i.lists
		i.mu.Unlock()
		if err == nil && maps.Equal(has, stored) {
			t.Logf("  the informer has converged after %s, with %d lists", time.Since(began).Round(time.Millisecond), lists)
			return
		}
		if time.Since(began) > 2*time.Minute {
			t.Fatalf("the informer has %q, and the cluster %q, %v", has, stored, err)
		}
		if err := wait.Pause(t.Context(), 100*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
}
