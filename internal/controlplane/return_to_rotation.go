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

// returnToRotation brings back into rotation the others that a change has left out of it
// when it was cut off: those that serve all the same, as after a power cut, and
// those that are still paused. Without it, what waits for them might be what
// Terraform does before them. It tries until end at the latest; one that does not
// come back is the refusal's to tell. It returns those that nobody can bring back
// before their etcd member is made.
//
// With forget, a registration whose machine holds no replica, as after a rebuild,
// is removed from the balancers: the replica registers again when it is created.
func (r *Replicas) returnToRotation(ctx context.Context, s Spec, forget bool, end time.Time) (orphans []orphan) {
	ctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	// In a turn no other, of this process or another one, is on its way out or back.
	turn, err := r.turns.take(ctx, s)
	if err != nil {
		problem.Detail(ctx, "%s: %v", s.Machine(), err)
		return nil
	}
	defer turn.end(true)
	ctx = turn.context(ctx)
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

// returnReplica brings one replica back that is out of rotation although nobody is
// changing it, where nothing else is wrong with it. One that lives on an etcd
// member that is not there is returned instead. With forget, one whose machine
// holds no replica is deregistered.
func (r *Replicas) returnReplica(ctx context.Context, s Spec, name, address string, forget bool) (*orphan, error) {
	at, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("read the address of replica %s: %w", name, err)
	}
	b := Beside{Host: r.machine(at), Bundle: s.Bundle, Registrar: func(json.RawMessage) (Registrar, error) { return s.Registrar, nil }}
	other, state, err := b.replica(ctx)
	if err == nil && state.absent && forget {
		problem.Progress(ctx, "%s (%s): its machine holds no replica: removing it from the balancers until it is created again", name, at)
		return nil, s.Registrar.Deregister(ctx, name)
	}
	if other == nil || err != nil || other.Name != name {
		return nil, err
	}
	if state.orphan {
		return &orphan{machine: other.Machine(), changing: r.inProgress.changes(at)}, nil
	}
	if state.paused {
		err = startAndRegister(ctx, *other, release.Components())
	} else {
		var serving bool
		if serving, err = serves(ctx, *other); err == nil && !serving {
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
