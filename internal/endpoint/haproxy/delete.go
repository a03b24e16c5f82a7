package haproxy

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// DeleteOptions qualify Delete.
type DeleteOptions struct {
	Abandon host.Abandoned // unreachable hosts that no longer exist: they are skipped
	// WaitForReplicas is how long to wait for the next replica to leave before Delete refuses
	// because of those that remain. With zero, it refuses immediately.
	WaitForReplicas time.Duration
	// Superseded is asked before each step. Delete then returns endpoint.ErrSuperseded.
	Superseded endpoint.Superseded
	// LeftAlone is called for a host that belongs to another endpoint. It may be nil.
	LeftAlone func(why string)
}

// Delete refuses while backends remain, then removes everything from every host. Hosts that only the records of others
// name come first, because these records are removed as well.
func Delete(ctx context.Context, s Spec, o DeleteOptions) error {
	seen, err := waitForReplicas(ctx, s, o)
	if err != nil {
		return err
	}
	former, err := forgottenHosts(ctx, s, Spec{}, seen)
	if err != nil {
		return refusedError(s, "deleted", err)
	}
	if err := requireAbandoned(ctx, former.Spec, former.lost, o.Abandon, notDeleted, problem.Nothing); err != nil {
		return err
	}
	if err := o.Superseded.Err(); err != nil {
		return err
	}
	if _, err := cleanHosts(ctx, former.Spec, former.lost, notDeleted); err != nil {
		return err
	}
	if err := o.Superseded.Err(); err != nil {
		return err
	}
	lost := lostOf(seen)
	alone, err := cleanHosts(ctx, s, lost, deletedOnOthers)
	for _, why := range alone {
		if o.LeftAlone != nil {
			o.LeftAlone(why)
		}
	}
	if err != nil {
		return err
	}
	return requireAbandoned(ctx, s, lost, o.Abandon, deletedOnOthers, othersDone)
}

// waitForReplicas waits until no replica is in rotation. If Terraform's graph has no edge between
// the endpoint and its replicas, they are destroyed at the same time. What it returns was observed before a Create has
// taken the endpoint over.
func waitForReplicas(ctx context.Context, s Spec, o DeleteOptions) (map[string]balancer, error) {
	since, reported := time.Now(), ""
	for {
		seen, err := observe(ctx, s, balancerQuery(s, false))
		if taken := o.Superseded.Err(); taken != nil {
			return nil, taken
		}
		if err != nil {
			return nil, refusedError(s, "deleted", err)
		}
		err = inUse(s, seen)
		if err == nil {
			return seen, nil
		}
		if remain := err.Error(); remain != reported {
			since, reported = time.Now(), remain
			problem.Progress(ctx, "endpoint %s: replicas are still in rotation", s.Address)
		}
		if time.Since(since) >= o.WaitForReplicas {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(replicasInterval):
		}
	}
}

const replicasInterval = 500 * time.Millisecond

// inUse refuses to remove the address while replicas are in rotation.
func inUse(s Spec, seen map[string]balancer) error {
	var lines []string
	for _, name := range names(seen) {
		for _, server := range seen[name].servers {
			lines = append(lines, fmt.Sprintf("%s on %s", server.Name, s.label(name)))
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return &problem.Problem{
		Summary:   "Endpoint " + s.Address + " not deleted",
		Cause:     "replicas are still in its rotation, see below: their clients would lose the API",
		Unchanged: problem.Nothing,
		Next: "delete these kube_control_plane_replica resources first" + endpoint.MovingHint + endpoint.ForgetHint +
			"; for a replica that is gone, delete its line from " + backendsPath + " on the host and run: systemctl reload " +
			haproxyUnit,
		Detail: "  " + strings.Join(lines, "\n  "),
	}
}
