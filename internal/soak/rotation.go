package soak

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
)

// rotationUnit runs rotationScript on a machine, and rotationLog is its output.
const (
	rotationUnit = "soak-rotation"
	rotationLog  = "/run/" + rotationUnit + ".log"
)

// watchRotation starts to record the rotation of a machine's load balancer.
func watchRotation(ctx context.Context, m *lab.Machine) error {
	start := fmt.Sprintf("rm -f %[2]s\nsystemd-run --quiet --collect --unit=%[1]s --property=StandardOutput=file:%[2]s "+
		"sh -c \"$watch\"", rotationUnit, rotationLog)
	if _, err := m.Run(ctx, with(map[string]string{"watch": rotationScript}, start)); err != nil {
		return fmt.Errorf("record the balancer of %s: %w", m.Name, err)
	}
	return nil
}

// rotationSeen ends the recording and returns, for each change, the replicas out of
// rotation.
func rotationSeen(ctx context.Context, m *lab.Machine) ([][]string, error) {
	out, err := m.Run(ctx, fmt.Sprintf("set -e\nsystemctl stop %s\ncat %s", rotationUnit, rotationLog))
	if err != nil {
		return nil, fmt.Errorf("record the balancer of %s: %w", m.Name, err)
	}
	return parseRotation(out), nil
}

// parseRotation parses the log. There is no entry while all replicas are in rotation.
func parseRotation(log string) [][]string {
	var seen [][]string
	for line := range strings.Lines(log) {
		if out := strings.Fields(line); len(out) > 0 {
			seen = append(seen, out)
		}
	}
	return seen
}

// rotationResult counts how often exactly one replica was out of rotation.
func rotationResult(name string, seen [][]string) Result {
	r := Result{Name: name + ": one replica at a time out of rotation"}
	var fields []string
	for _, out := range seen {
		r.count(len(out) == 1)
		fields = append(fields, strings.Join(out, " and "))
	}
	if r.Detail = strings.Join(slices.Compact(fields), ", "); len(seen) == 0 {
		r.count(false)
		r.Detail = "no replica left rotation: the recording of the balancer failed"
	}
	return r
}
