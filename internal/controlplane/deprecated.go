package controlplane

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// removedAPIs asks those API servers that run an older minor than the wanted one
// which APIs their clients use that the wanted one does not serve any more. It is
// a hint: a server that does not answer gives none.
func removedAPIs(ctx context.Context, s Spec, all []standing) []string {
	want, err := minorOf(s.Version)
	if err != nil {
		return nil
	}
	var mu sync.Mutex
	var found []string
	var asking sync.WaitGroup
	for _, st := range all {
		if has, err := minorOf(st.version); err != nil || has >= want {
			continue
		}
		asking.Go(func() {
			words, err := deprecatedIn(ctx, st.spec(s), want)
			if err != nil {
				problem.Detail(ctx, "%s: not asked for deprecated APIs: %v", st.machine(), err)
			}
			mu.Lock()
			defer mu.Unlock()
			found = append(found, words...)
		})
	}
	asking.Wait()
	slices.Sort(found)
	return slices.Compact(found)
}

func deprecatedIn(ctx context.Context, s Spec, want int) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, apiPatience)
	defer cancel()
	access, done, err := masters(s)
	if err != nil {
		return nil, err
	}
	defer done()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.localURL()+"/metrics", nil)
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
	return parseDeprecated(response.Body, want)
}

// An API server says of each deprecated API that was asked for since its start in
// which release it goes (k8s.io/apiserver/pkg/endpoints/metrics):
//
//	apiserver_requested_deprecated_apis{group="flowcontrol.apiserver.k8s.io",removed_release="1.32",resource="flowschemas",subresource="",version="v1beta3"} 1
const deprecatedMetric = "apiserver_requested_deprecated_apis{"

var metricLabel = regexp.MustCompile(`(\w+)="([^"]*)"`)

// parseDeprecated reads metrics for what minor want does not serve any more.
func parseDeprecated(metrics io.Reader, want int) ([]string, error) {
	var out []string
	lines := bufio.NewScanner(metrics)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		text, ok := strings.CutPrefix(lines.Text(), deprecatedMetric)
		if !ok {
			continue
		}
		label := map[string]string{}
		for _, pair := range metricLabel.FindAllStringSubmatch(text, -1) {
			label[pair[1]] = pair[2]
		}
		removed, known := looseMinor(label["removed_release"])
		if !known || removed > want {
			continue
		}
		out = append(out, fmt.Sprintf("%s of %s (not served from %s on)",
			label["resource"], strings.TrimPrefix(label["group"]+"/"+label["version"], "/"), label["removed_release"]))
	}
	return out, lines.Err()
}
