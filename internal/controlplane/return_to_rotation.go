package controlplane

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// returnToRotation returns other replicas to rotation that an interrupted change has left out:
// replicas that serve (after a power failure, for example) and replicas that are still paused.
// Otherwise an operation could wait for a replica whose own change Terraform runs later. It
// stops at end. It returns the replicas that cannot return before their etcd member is created.
//
// With forget, a registration whose machine has no replica, as after a rebuild, is removed from
// the load balancers: the replica registers again when it is created.
func (r *Replicas) returnToRotation(ctx context.Context, s Spec, forget bool, end time.Time) (orphans []orphan) {
	ctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	// Under the lock, no other replica is leaving or returning, in any process.
	lock, err := r.changeLocks.acquire(ctx, s)
	if err != nil {
		problem.Detail(ctx, "%s: %v", s.Machine(), err)
		return nil
	}
	defer lock.release(true)
	ctx = lock.context(ctx)
	others, err := s.Registrar.OutOfRotation(ctx)
	if err != nil {
		problem.Detail(ctx, "%s: %v", s.Machine(), err)
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(others)) {
		if name == s.Name || r.paused.has(s.Bundle.ClusterID, name) {
			continue
		}
		alone, err := r.returnReplica(ctx, s, name, others[name], forget)
		if err != nil {
			problem.Detail(ctx, "%s: not returned to rotation: %v", name, err)
		}
		if alone != nil {
			orphans = append(orphans, *alone)
		}
	}
	return orphans
}

// returnReplica returns a replica to rotation if no process is changing it and it has no other
// problem. A replica whose only etcd member does not run is returned as an orphan. With forget,
// a replica whose machine has none is deregistered.
func (r *Replicas) returnReplica(ctx context.Context, s Spec, name, address string, forget bool) (*orphan, error) {
	at, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("read the address of replica %s: %w", name, err)
	}
	b := StackedMember{Host: r.machine(at), Bundle: s.Bundle, Registrar: func(json.RawMessage) (Registrar, error) { return s.Registrar, nil }}
	other, state, err := b.replica(ctx)
	if err == nil && state.absent && forget {
		problem.Progress(ctx, "%s (%s): its machine holds no replica: removing it from the balancers until it is created again", name, at)
		return nil, s.Registrar.Deregister(ctx, name)
	}
	if other == nil || err != nil || other.Name != name {
		return nil, err
	}
	if state.orphan {
		return &orphan{machine: other.Machine(), changing: r.inProgress.changesMember(at)}, nil
	}
	if state.paused {
		err = startAndRegister(ctx, *other, release.Components())
	} else {
		var serving bool
		if serving, err = other.client().Serves(ctx); err == nil && !serving {
			return nil, nil
		}
		if err == nil {
			err = other.Registrar.Register(ctx, name, other.ServingAddress())
		}
	}
	if err != nil {
		return nil, err
	}
	problem.Progress(ctx, "%s: back in rotation after an interrupted change", other.Machine())
	return nil, nil
}
