package client

import (
	"context"
	"fmt"
	"net/http"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
)

const (
	// queryTimeout limits a query.
	queryTimeout = 10 * time.Second
	nodesPage    = 500
)

// Nodes lists all nodes.
func (c Client) Nodes(ctx context.Context) ([]core.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	access, done, err := c.admin()
	if err != nil {
		return nil, err
	}
	defer done()
	api, err := typedcore.NewForConfigAndClient(access.rest, access.web)
	if err != nil {
		return nil, err
	}
	var all []core.Node
	for next := ""; ; {
		nodes, err := api.Nodes().List(ctx, meta.ListOptions{Limit: nodesPage, Continue: next})
		if err != nil {
			return nil, err
		}
		all = append(all, nodes.Items...)
		if next = nodes.Continue; next == "" {
			return all, nil
		}
	}
}

// RemovedAPIs returns the deprecated APIs that clients have requested and that the given minor no
// longer serves.
func (c Client) RemovedAPIs(ctx context.Context, minor int) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	access, done, err := c.admin()
	if err != nil {
		return nil, err
	}
	defer done()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.replica.LocalURL()+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := access.web.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("HTTP status %d", response.StatusCode)
	}
	return release.RemovedAPIs(response.Body, minor)
}
