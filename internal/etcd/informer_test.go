package etcd

import (
	"context"
	"maps"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/wait"
)

const informed = "/registry/" // what an informer copies

// informer is client-go's informer of the keys of a cluster, as objects whose names are the keys. It lists and watches
// etcd as an API server without a cache would: with etcd's revisions, and with 410 Gone if these have been compacted.
// It is never restarted, so what it has after a restore is what the clients of a cluster have.
type informer struct {
	client *clientv3.Client
	store  cache.Store
	lists  atomic.Int64
	newer  atomic.Int64 // the newest revision that a list has returned
	back   atomic.Bool  // a later list has returned an older one
}

// inform starts an informer of the members, which ends with the test.
func inform(t *testing.T, specs map[string]Spec) *informer {
	t.Helper()
	config, err := client.TLS(First(specs).Bundle, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	var endpoints []string
	for _, s := range specs {
		endpoints = append(endpoints, s.ClientURL())
	}
	c, err := clientv3.New(clientv3.Config{
		Endpoints: endpoints, TLS: config, Logger: zap.NewNop(), DialKeepAliveTime: 5 * time.Second,
		DialKeepAliveTimeout: 5 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	i := &informer{client: c}
	store, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: &cache.ListWatch{ListWithContextFunc: i.list, WatchFuncWithContext: i.watch},
		ObjectType:    &core.ConfigMap{}, Handler: cache.ResourceEventHandlerFuncs{},
	})
	i.store = store
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		controller.RunWithContext(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		_ = c.Close() // nothing is written with it
	})
	return i
}

// object is a key as the informer has it.
func object(key, value string, revision int64) *core.ConfigMap {
	return &core.ConfigMap{
		ObjectMeta: meta.ObjectMeta{Name: key, ResourceVersion: strconv.FormatInt(revision, 10)},
		Data:       map[string]string{"value": value},
	}
}

func (i *informer) list(ctx context.Context, _ meta.ListOptions) (runtime.Object, error) {
	keys, revision, err := i.stored(ctx)
	if err != nil {
		return nil, err
	}
	i.lists.Add(1)
	if i.newer.Swap(revision) > revision {
		i.back.Store(true)
	}
	all := &core.ConfigMapList{ListMeta: meta.ListMeta{ResourceVersion: strconv.FormatInt(revision, 10)}}
	for key, value := range keys {
		all.Items = append(all.Items, *object(key, value, revision))
	}
	return all, nil
}

// watch follows the changes after a revision until the informer ends the watch, or etcd does.
func (i *informer) watch(ctx context.Context, options meta.ListOptions) (watch.Interface, error) {
	from, err := strconv.ParseInt(options.ResourceVersion, 10, 64)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	events := make(chan watch.Event)
	proxy := watch.NewProxyWatcher(events)
	go func() {
		defer cancel()
		defer close(events)
		for answer := range i.client.Watch(ctx, informed, clientv3.WithPrefix(), clientv3.WithRev(from+1)) {
			for _, event := range eventsOf(answer) {
				select {
				case events <- event:
				case <-proxy.StopChan():
					return
				}
			}
			if answer.Err() != nil {
				return
			}
		}
	}()
	context.AfterFunc(ctx, proxy.Stop)
	go func() {
		<-proxy.StopChan()
		cancel()
	}()
	return proxy, nil
}

// eventsOf returns an answer of etcd as Kubernetes' events.
func eventsOf(answer clientv3.WatchResponse) []watch.Event {
	if answer.CompactRevision > 0 {
		gone := apierrors.NewResourceExpired("the revision has been compacted").Status()
		return []watch.Event{{Type: watch.Error, Object: &gone}}
	}
	var events []watch.Event
	for _, e := range answer.Events {
		kind := watch.Modified
		if e.IsCreate() {
			kind = watch.Added
		} else if e.Type == clientv3.EventTypeDelete {
			kind = watch.Deleted
		}
		events = append(events, watch.Event{
			Type: kind, Object: object(string(e.Kv.Key), string(e.Kv.Value), e.Kv.ModRevision),
		})
	}
	return events
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

// copied returns what the informer has.
func (i *informer) copied() map[string]string {
	keys := map[string]string{}
	for _, o := range i.store.List() {
		if c, ok := o.(*core.ConfigMap); ok {
			keys[c.Name] = c.Data["value"]
		}
	}
	return keys
}

// converges waits until the informer has what the cluster has, and returns how long that took.
func (i *informer) converges(t *testing.T) time.Duration {
	t.Helper()
	began := time.Now()
	for {
		stored, _, err := i.stored(t.Context())
		has := i.copied()
		if err == nil && maps.Equal(has, stored) {
			t.Logf("  the informer has converged after %s, with %d lists", time.Since(began).Round(time.Millisecond),
				i.lists.Load())
			if i.back.Load() {
				t.Error("a later list had an older revision")
			}
			return time.Since(began)
		}
		if time.Since(began) > 2*time.Minute {
			t.Fatalf("the informer has %q, and the cluster %q, %v", has, stored, err)
		}
		if err := wait.Pause(t.Context(), 100*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
}
