package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	// skewTimeout bounds the whole look: a machine that is dead takes a
	// connection's time limit (10 s) to be known as such.
	skewTimeout = 30 * time.Second
	// apiQueryTimeout bounds what one API server is asked for.
	apiQueryTimeout = 10 * time.Second
	nodesPage       = 500
)

// Versions looks at which versions run in the replica's control plane: its own and
// the others', etcd's, the nodes'. Who does not answer tells none.
func (r *Replicas) Versions(ctx context.Context, s Spec) (release.Versions, error) {
	seen, _, err := r.observeVersions(ctx, s)
	return seen, err
}

// observeVersions is Skew with where each replica stands, the replica's own first if there
// is one.
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

// allReplicas are the replicas that there are.
func (r *Replicas) allReplicas(ctx context.Context, s Spec) ([]replicaStatus, error) {
	own := make(chan replicaStatus, 1)
	go func() { own <- ownStatus(ctx, s) }()
	others, err := r.otherReplicas(ctx, s)
	all := append([]replicaStatus{<-own}, others...)
	return slices.DeleteFunc(all, func(st replicaStatus) bool { return st.absent }), err
}

// kubelets asks the first of the API servers that answers for its nodes. Without
// any replica there is none.
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

// nodesBy asks the replica's API server for all nodes.
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
