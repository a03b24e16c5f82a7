package release

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// An API server reports each deprecated API that was requested since its start,
// with the release that removes it (k8s.io/apiserver/pkg/endpoints/metrics):
//
//	apiserver_requested_deprecated_apis{group="flowcontrol.apiserver.k8s.io",removed_release="1.32",
//		resource="flowschemas",subresource="",version="v1beta3"} 1
const deprecatedMetric = "apiserver_requested_deprecated_apis{"

var metricLabel = regexp.MustCompile(`(\w+)="([^"]*)"`)

// RemovedAPIs returns the requested APIs in metrics that a minor no longer serves.
func RemovedAPIs(metrics io.Reader, minor int) ([]string, error) {
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
		if !known || removed > minor {
			continue
		}
		out = append(out, fmt.Sprintf("%s of %s (removed in %s)",
			label["resource"], strings.TrimPrefix(label["group"]+"/"+label["version"], "/"), label["removed_release"]))
	}
	return out, lines.Err()
}
