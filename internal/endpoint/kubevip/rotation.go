package kubevip

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
)

// undoTimeout limits Undrain after a failed drain, whose context may have ended.
const undoTimeout = 30 * time.Second

// Drain takes a replica out of rotation for a restart: kube-vip stops on its machine. All other replicas must be
// in rotation.
func (r *Registrar) Drain(ctx context.Context, name string) error {
	return r.leave(ctx, name, targets.ToReturn)
}

// DrainForDelete drains a replica that is removed: at least one other replica must be in rotation. With
// lastAllowed, the only replica may be removed too.
func (r *Registrar) DrainForDelete(ctx context.Context, name string, lastAllowed bool) error {
	if lastAllowed {
		return r.leave(ctx, name, targets.AsLast)
	}
	return r.leave(ctx, name, targets.ForGood)
}

func (r *Registrar) leave(ctx context.Context, name string, how targets.Leaving) error {
	if err := ValidateRegistration(r.Registration); err != nil {
		return r.operationError("drained", name, err)
	}
	seen := r.inRotation(ctx)
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := r.MayLeave(name, seen, how); err != nil {
		return err
	}
	t, known := seen[name]
	if !known || t.Unreachable != nil && t.NotReady != nil {
		return nil // a machine that is down has no address
	}
	others := maps.Clone(seen.Serving())
	delete(others, name)
	err := r.handOver(ctx, t, len(others) > 0)
	if err == nil {
		return nil
	}
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	if undone := r.Undrain(undo, name); undone != nil {
		err = fmt.Errorf("%w; returning it to rotation failed too: %w", err, undone)
	}
	return r.operationError("drained", name, err)
}

// handOver returns when kube-vip has ended on the machine of t, and, if another replica is in rotation, when
// another machine has the address and answers.
func (r *Registrar) handOver(ctx context.Context, t targets.Target, others bool) error {
	answer, err := endpoint.RunOwned(ctx, r.Machine(t.Address),
		owned("# take the replica out of rotation\n", drainScript, r.Registration))
	if errors.Is(err, endpoint.ErrOther) || err == nil && answer == endpoint.Absent {
		return nil // it is no candidate of this endpoint
	}
	if err != nil || !others {
		return err
	}
	return targets.WaitUntil(ctx, r.KubeVIP.LeaseDuration+electionTimeout, func(ctx context.Context) error {
		return r.held(ctx, t, r.observeMachines(ctx))
	})
}

// Undrain reverts Drain and DrainForDelete if the replica is still registered. Its machine becomes a candidate
// again when the API server is ready.
func (r *Registrar) Undrain(ctx context.Context, name string) error {
	if r.Hosts[name] == "" {
		return nil
	}
	_, err := endpoint.RunOwned(ctx, r.Machine(r.Hosts[name]),
		owned("# put the replica into rotation\n", admitScript, r.Registration))
	if errors.Is(err, endpoint.ErrOther) {
		return nil
	}
	return r.operationError("put back", name, err)
}

// inRotation observes all targets. One that is ready, and whose machine is no candidate, is not ready for
// requests.
func (r *Registrar) inRotation(ctx context.Context) targets.Observed {
	return r.ObserveInRotation(ctx, func(ctx context.Context, t targets.Target) error {
		m := observe(ctx, r.Machine(t.Address), r.Registration)
		if m.err != nil {
			return m.err
		}
		return m.outOfRotation(r.Registration, t.Name)
	})
}

// OutOfRotation returns the replicas that get no requests, name → host:port.
func (r *Registrar) OutOfRotation(ctx context.Context) (map[string]string, error) {
	return r.inRotation(ctx).OutOfRotation(), ctx.Err()
}

// Serving returns the replicas that get requests, now or when they hold the address, name → host:port.
func (r *Registrar) Serving(ctx context.Context) (map[string]string, error) {
	return r.inRotation(ctx).Serving(), ctx.Err()
}

// Health observes the targets. It never fails: what is wrong is in the result. The endpoint is not requested:
// this computer may not be where clients are.
func (r *Registrar) Health(ctx context.Context) targets.Health {
	h := targets.HealthOf(r.inRotation(ctx))
	h.URL = r.BaseURL()
	if _, err := holderOf(r.observeMachines(ctx)); err != nil {
		h.Silence = err.Error()
	}
	return h
}
