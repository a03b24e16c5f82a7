package soak

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
)

// rotationUnit looks at a balancer five times a second for as long as it runs,
// and rotationLog has a line for each time that what it saw was another: the
// replicas that were out of rotation, because somebody drained them or because
// they failed their checks.
const (
	rotationUnit   = "soak-rotation"
	rotationLog    = "/run/" + rotationUnit + ".log"
	rotationScript = `
last=
while :; do
  if state=$(/opt/kube/endpoint/ask /run/kube-endpoint/haproxy.sock "show servers state kube-apiserver"); then
    out=$(echo "$state" | awk "NF >= 19 && !/^#/ && (\$6 != 2 || \$7 != 0) { print \$4 }" | sort | tr "\n" " ")
    [ "$out" = "$last" ] || echo "$out"
    last=$out
  fi
  sleep 0.2
done`
)

// watchRotation begins to look at the balancer of a machine.
func watchRotation(ctx context.Context, m *lab.Machine) error {
	script := fmt.Sprintf("rm -f %[2]s\nsystemd-run --quiet --collect --unit=%[1]s --property=StandardOutput=file:%[2]s sh -c '%[3]s'", rotationUnit, rotationLog, rotationScript)
	if _, err := m.Run(ctx, script); err != nil {
		return fmt.Errorf("look at the balancer of %s: %w", m.Name, err)
	}
	return nil
}

// rotationSeen ends the look and gives, for each change, who was out of rotation.
func rotationSeen(ctx context.Context, m *lab.Machine) ([][]string, error) {
	out, err := m.Run(ctx, fmt.Sprintf("set -e\nsystemctl stop %s\ncat %s", rotationUnit, rotationLog))
	if err != nil {
		return nil, fmt.Errorf("look at the balancer of %s: %w", m.Name, err)
	}
	return parseRotation(out), nil
}

// parseRotation reads the log. Nobody out of rotation is no entry.
func parseRotation(log string) [][]string {
	var seen [][]string
	for line := range strings.Lines(log) {
		if out := strings.Fields(line); len(out) > 0 {
			seen = append(seen, out)
		}
	}
	return seen
}

// rotationResult counts how often one replica alone was out of rotation.
func rotationResult(name string, seen [][]string) Result {
	r := Result{Name: name + ": one replica at a time out of rotation"}
	var words []string
	for _, out := range seen {
		r.count(len(out) == 1)
		words = append(words, strings.Join(out, " and "))
	}
	if r.Detail = strings.Join(slices.Compact(words), ", "); len(seen) == 0 {
		r.count(false)
		r.Detail = "none was seen to leave: the look at the balancer did not work"
	}
	return r
}
