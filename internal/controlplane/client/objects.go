package client

import (
	"context"
	"errors"
	"fmt"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
)

const (
	rewritePage = 25 // an object may have 1 MiB, and responses are limited
	// rewriteTries is the maximum number of attempts per object on conflicts.
	rewriteTries = 10
)

// Rewrite updates objects of a resource without changing them, through the replica's API server, and returns the number
// of updates. The server stores an object again if its stored form is not current, and does nothing otherwise
// (k8s.io/apiserver/pkg/storage/etcd3, GuaranteedUpdate), so Rewrite can be repeated. stale has the objects to update,
// as namespace/name; nil means all of them.
func (c Client) Rewrite(ctx context.Context, resource string, stale []string) (int, error) {
	access, done, err := c.admin()
	if err != nil {
		return 0, err
	}
	defer done()
	api, err := typedcore.NewForConfigAndClient(access.rest, access.web)
	if err != nil {
		return 0, err
	}
	switch resource {
	case "secrets":
		return secretsOf(api).rewrite(ctx, stale)
	case "configmaps":
		return configMapsOf(api).rewrite(ctx, stale)
	}
	return 0, fmt.Errorf("unknown resource %q", resource)
}

// objects are the objects of one resource in all namespaces.
type objects[T meta.Object] struct {
	list   func(context.Context, meta.ListOptions) (items []T, next string, err error)
	get    func(ctx context.Context, namespace, name string) (T, error)
	update func(context.Context, T) error
}

func secretsOf(api typedcore.SecretsGetter) objects[*core.Secret] {
	return objects[*core.Secret]{
		list: func(ctx context.Context, o meta.ListOptions) ([]*core.Secret, string, error) {
			list, err := api.Secrets("").List(ctx, o)
			if err != nil {
				return nil, "", err
			}
			return pointers(list.Items), list.Continue, nil
		},
		get: func(ctx context.Context, namespace, name string) (*core.Secret, error) {
			return api.Secrets(namespace).Get(ctx, name, meta.GetOptions{})
		},
		update: func(ctx context.Context, object *core.Secret) error {
			_, err := api.Secrets(object.Namespace).Update(ctx, object, meta.UpdateOptions{})
			return err
		},
	}
}

func configMapsOf(api typedcore.ConfigMapsGetter) objects[*core.ConfigMap] {
	return objects[*core.ConfigMap]{
		list: func(ctx context.Context, o meta.ListOptions) ([]*core.ConfigMap, string, error) {
			list, err := api.ConfigMaps("").List(ctx, o)
			if err != nil {
				return nil, "", err
			}
			return pointers(list.Items), list.Continue, nil
		},
		get: func(ctx context.Context, namespace, name string) (*core.ConfigMap, error) {
			return api.ConfigMaps(namespace).Get(ctx, name, meta.GetOptions{})
		},
		update: func(ctx context.Context, object *core.ConfigMap) error {
			_, err := api.ConfigMaps(object.Namespace).Update(ctx, object, meta.UpdateOptions{})
			return err
		},
	}
}

func pointers[T any](items []T) []*T {
	out := make([]*T, len(items))
	for i := range items {
		out[i] = &items[i]
	}
	return out
}

// rewrite iterates over the pages. A list of many pages expires when etcd is compacted. It goes on where the server
// says, with the objects as they are then: what was created since is stored in the current form.
func (o objects[T]) rewrite(ctx context.Context, stale []string) (int, error) {
	wanted := map[string]bool{}
	for _, name := range stale {
		wanted[name] = true
	}
	n := 0
	for next := ""; ; {
		items, following, err := o.list(ctx, meta.ListOptions{Limit: rewritePage, Continue: next})
		if next != "" && apierrors.IsResourceExpired(err) {
			next = continuation(err)
			continue
		}
		if err != nil {
			return n, err
		}
		for _, item := range items {
			name := item.GetNamespace() + "/" + item.GetName()
			if stale != nil && !wanted[name] {
				continue
			}
			if err := o.touch(ctx, item); err != nil {
				return n, fmt.Errorf("%s: %w", name, err)
			}
			n++
		}
		if next = following; next == "" {
			return n, nil
		}
	}
}

// continuation returns where a list that has expired can go on; "" means at its beginning.
func continuation(expired error) string {
	var status apierrors.APIStatus
	if !errors.As(expired, &status) {
		return ""
	}
	return status.Status().Continue
}

// touch updates one object without changing it. A deleted object is skipped.
func (o objects[T]) touch(ctx context.Context, item T) error {
	namespace, name := item.GetNamespace(), item.GetName()
	for try := 1; ; try++ {
		err := o.update(ctx, item)
		if apierrors.IsConflict(err) && try < rewriteTries {
			item, err = o.get(ctx, namespace, name)
			if err == nil {
				continue
			}
		}
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
}
