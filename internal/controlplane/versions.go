package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

const (
	// skewTimeout limits the whole observation. Detecting that a machine is down takes a
	// connection timeout (10 s).
	skewTimeout = 30 * time.Second
)

// Versions returns the versions that run in the replica's control plane: those of all API
// servers, of etcd and of the kubelets. A version that cannot be read is "".
func (r *Replicas) Versions(ctx context.Context, s Spec) (release.Versions, error) {
	if err := s.checkHost(); err != nil {
		return release.Versions{}, err
	}
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
	var queries sync.WaitGroup
	if s.Store != nil {
		queries.Go(func() {
			if seen.Etcd, etcdErr = s.Store.Versions(ctx); etcdErr != nil {
				etcdErr = fmt.Errorf("read the versions of etcd: %w", etcdErr)
			}
		})
	}
	all, err := r.allReplicas(ctx, s)
	for _, st := range all {
		seen.Replicas[st.name] = st.version
	}
	queries.Go(func() { seen.Removed = requestedRemovedAPIs(ctx, s, all) })
	seen.Kubelets = kubelets(ctx, s, all)
	queries.Wait()
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
	nodes, err := s.client().Nodes(ctx)
	if err != nil {
		return nil, err
	}
	versions := map[string]string{}
	for _, node := range nodes {
		versions[node.Name] = strings.TrimPrefix(node.Status.NodeInfo.KubeletVersion, "v")
	}
	return versions, nil
}

// requestedRemovedAPIs returns the APIs that clients have requested and that the wanted version
// no longer serves. It queries the API servers that run an older minor. The result is a hint:
// an API server that does not answer is skipped.
func requestedRemovedAPIs(ctx context.Context, s Spec, all []replicaStatus) []string {
	want, err := release.Minor(s.Version)
	if err != nil {
		return nil
	}
	var mu sync.Mutex
	var removed []string
	var queries sync.WaitGroup
	for _, st := range all {
		if has, err := release.Minor(st.version); err != nil || has >= want {
			continue
		}
		queries.Go(func() {
			requested, err := st.spec(s).client().RemovedAPIs(ctx, want)
			if err != nil {
				problem.Detail(ctx, "%s: deprecated APIs unknown: %v", st.machine(), err)
			}
			mu.Lock()
			defer mu.Unlock()
			removed = append(removed, requested...)
		})
	}
	queries.Wait()
	slices.Sort(removed)
	return slices.Compact(removed)
}
