package controlplane

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

const (
	// skewTimeout limits the whole observation. Detecting that a machine is down takes a
	// connection timeout (10 s).
	skewTimeout = 30 * time.Second
	// apiQueryTimeout limits the queries to one API server.
	apiQueryTimeout = 10 * time.Second
	nodesPage       = 500
)

// Versions returns the versions that run in the replica's control plane: those of all API
// servers, of etcd and of the kubelets. A version that cannot be read is "".
func (r *Replicas) Versions(ctx context.Context, s Spec) (release.Versions, error) {
	seen, _, err := r.observeVersions(ctx, s)
	return seen, err
}

// observeVersions returns the versions and the status of each replica, starting with the
// replica itself if it exists.
func (r *Replicas) observeVersions(ctx context.Context, s Spec) (release.Versions, []replicaStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, skewTimeout)
	defer cancel()
	seen := release.Versions{Replicas: map[string]string{}}
	var etcdErr error
	var asking sync.WaitGroup
	if s.Store != nil {
		asking.Go(func() {
			if seen.Etcd, etcdErr = s.Store.Versions(ctx); etcdErr != nil {
				etcdErr = fmt.Errorf("read the versions of etcd: %w", etcdErr)
			}
		})
	}
	all, err := r.allReplicas(ctx, s)
	for _, st := range all {
		seen.Replicas[st.name] = st.version
	}
	asking.Go(func() { seen.Removed = requestedRemovedAPIs(ctx, s, all) })
	seen.Kubelets = kubelets(ctx, s, all)
	asking.Wait()
	return seen, all, errors.Join(err, etcdErr)
}

// kubelets returns the kubelet versions from the first API server that answers; nil if
// none does. Without any replica there are none.
func kubelets(ctx context.Context, s Spec, all []replicaStatus) map[string]string {
	if len(all) == 0 {
		return map[string]string{}
	}
	for _, st := range all {
		if st.version == "" {
			continue
		}
		nodes, err := nodeVersions(ctx, st.spec(s))
		if err == nil {
			return nodes
		}
		problem.Detail(ctx, "%s: nodes unknown: %v", st.machine(), err)
	}
	return nil
}

func nodeVersions(ctx context.Context, s Spec) (map[string]string, error) {
	nodes, err := nodesBy(ctx, s)
	if err != nil {
		return nil, err
	}
	versions := map[string]string{}
	for _, node := range nodes {
		versions[node.Name] = strings.TrimPrefix(node.Status.NodeInfo.KubeletVersion, "v")
	}
	return versions, nil
}

// nodesBy lists all nodes through the API server of the replica.
func nodesBy(ctx context.Context, s Spec) ([]core.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, apiQueryTimeout)
	defer cancel()
	access, done, err := adminClient(s)
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
