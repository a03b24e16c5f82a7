package client

import (
	"context"
	"fmt"
	"net/http"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/nodebootstrap"
)

// Applied accesses objects whose fields the provider owns, by server-side apply.
type Applied struct {
	api  dynamic.Interface
	core *typedcore.CoreV1Client
	done func()
}

// Applied connects to the API server of the replica. The caller closes it.
func (c Client) Applied() (Applied, error) {
	access, done, err := c.admin()
	if err != nil {
		return Applied{}, err
	}
	return access.applied(done)
}

// applied returns the objects of an API server. done ends the connection.
func (a adminAccess) applied(done func()) (Applied, error) {
	api, err := dynamic.NewForConfigAndClient(a.rest, a.web)
	if err != nil {
		done()
		return Applied{}, err
	}
	typed, err := typedcore.NewForConfigAndClient(a.rest, a.web)
	if err != nil {
		done()
		return Applied{}, err
	}
	return Applied{api: api, core: typed, done: done}, nil
}

// Close ends the connection.
func (a Applied) Close() { a.done() }

func (a Applied) of(o nodebootstrap.Object) dynamic.ResourceInterface {
	api := a.api.Resource(schema.GroupVersionResource{Group: o.Group, Version: "v1", Resource: o.Resource})
	if o.Namespace == "" {
		return api
	}
	return api.Namespace(o.Namespace)
}

// Get returns an object, or nil if there is none.
func (a Applied) Get(ctx context.Context, o nodebootstrap.Object) (map[string]any, error) {
	existing, err := a.of(o).Get(ctx, o.Name, meta.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get %s: %w", o.Label(), err)
	}
	return existing.Object, nil
}

// Apply makes the fields of an object as they are in o. force takes fields over from other managers.
func (a Applied) Apply(ctx context.Context, o nodebootstrap.Object, force bool) error {
	_, err := a.of(o).Apply(ctx, o.Name, &unstructured.Unstructured{Object: o.Manifest()},
		meta.ApplyOptions{FieldManager: nodebootstrap.FieldManager, Force: force})
	if err != nil {
		return fmt.Errorf("apply %s: %w", o.Label(), err)
	}
	return nil
}

// Create creates an object. One that exists is an error.
func (a Applied) Create(ctx context.Context, o nodebootstrap.Object) error {
	_, err := a.of(o).Create(ctx, &unstructured.Unstructured{Object: o.Manifest()},
		meta.CreateOptions{FieldManager: nodebootstrap.FieldManager})
	if err != nil {
		return fmt.Errorf("create %s: %w", o.Label(), err)
	}
	return nil
}

// Delete deletes an object if it still is the one with that UID; "" stands for any. One that does not exist is
// deleted.
func (a Applied) Delete(ctx context.Context, o nodebootstrap.Object, uid string) error {
	var options meta.DeleteOptions
	if uid != "" {
		id := types.UID(uid)
		options.Preconditions = &meta.Preconditions{UID: &id}
	}
	if err := a.of(o).Delete(ctx, o.Name, options); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete %s: %w", o.Label(), err)
	}
	return nil
}

// Tokens returns the IDs of all bootstrap tokens.
func (a Applied) Tokens(ctx context.Context) ([]string, error) {
	list, err := a.core.Secrets(meta.NamespaceSystem).List(ctx, meta.ListOptions{
		FieldSelector: "type=" + nodebootstrap.TokenType,
	})
	if err != nil {
		return nil, fmt.Errorf("list bootstrap tokens: %w", err)
	}
	names := make([]string, 0, len(list.Items))
	for _, item := range list.Items {
		if item.Type == core.SecretTypeBootstrapToken {
			names = append(names, item.Name)
		}
	}
	return nodebootstrap.TokenIDs(names), nil
}

// AllowsDiscovery reports whether the API server answers requests for cluster-info that have no credentials, as
// far as its authentication decides that: whether the object exists, and RBAC allows it, is not considered.
func (c Client) AllowsDiscovery(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	config, err := verifiedTLS(c.replica.Bundle, c.replica.Address)
	if err != nil {
		return false, err
	}
	web := tunnel(c.host, config)
	defer web.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		c.replica.LocalURL()+nodebootstrap.ClusterInfoPath, nil)
	if err != nil {
		return false, err
	}
	response, err := web.Do(request)
	if err != nil {
		return false, Cause(err)
	}
	defer response.Body.Close()
	return response.StatusCode != http.StatusUnauthorized, nil
}
