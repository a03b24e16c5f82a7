package endpoint

import (
	"context"
	"fmt"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// DeleteOptions qualify Delete.
type DeleteOptions struct {
	AbandonUnreachable bool
}

// Delete refuses while backends remain, then removes everything from every host.
func Delete(ctx context.Context, s Spec, o DeleteOptions) error {
	seen, err := observe(ctx, s, question(s, false))
	if err != nil {
		return refused(s, "deleted", err)
	}
	if err := inUse(s, seen); err != nil {
		return err
	}
	lost := map[string]error{}
	for name, b := range seen {
		if b.unreachable != nil {
			lost[name] = b.unreachable
		}
	}
	if err := cleanOn(ctx, s, lost); err != nil {
		return err
	}
	return abandoned(ctx, s, lost, o.AbandonUnreachable)
}

// inUse refuses to take the address away under replicas that are in rotation.
func inUse(s Spec, seen map[string]balancer) error {
	var lines []string
	for _, name := range names(seen) {
		for _, found := range seen[name].servers {
			lines = append(lines, fmt.Sprintf("%s on %s", found.Name, s.label(name)))
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return &problem.Problem{
		Summary:   "endpoint " + s.Address + " not deleted",
		Cause:     "replicas are still in its rotation, see below: their clients would lose the API",
		Unchanged: problem.Nothing,
		Next:      "delete these kube_control_plane_replica resources first; for a replica that is gone, delete its line from " + backendsPath + " on the host and run: systemctl reload " + haproxyUnit,
		Detail:    "  " + strings.Join(lines, "\n  "),
	}
}
