package controlplane

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// requestedRemovedAPIs returns the APIs that clients have requested and that the wanted version
// no longer serves. It queries the API servers that run an older minor. The result is a hint:
// an API server that does not answer is skipped.
func requestedRemovedAPIs(ctx context.Context, s Spec, all []replicaStatus) []string {
	want, err := release.Minor(s.Version)
	if err != nil {
		return nil
	}
	var mu sync.Mutex
	var found []string
	var asking sync.WaitGroup
	for _, st := range all {
		if has, err := release.Minor(st.version); err != nil || has >= want {
			continue
		}
		asking.Go(func() {
			requested, err := deprecatedIn(ctx, st.spec(s), want)
			if err != nil {
				problem.Detail(ctx, "%s: deprecated APIs unknown: %v", st.machine(), err)
			}
			mu.Lock()
			defer mu.Unlock()
			found = append(found, requested...)
		})
	}
	asking.Wait()
	slices.Sort(found)
	return slices.Compact(found)
}

func deprecatedIn(ctx context.Context, s Spec, want int) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, apiQueryTimeout)
	defer cancel()
	access, done, err := adminClient(s)
	if err != nil {
		return nil, err
	}
	defer done()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.LocalURL()+"/metrics", nil)
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
	return release.RemovedAPIs(response.Body, want)
}
