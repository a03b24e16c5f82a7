package agent

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

// Drain takes a replica out of rotation for a restart: its agent stops serving the address. All other replicas
// must be in rotation.
func (r *Registrar[R]) Drain(ctx context.Context, name string) error {
	return r.leave(ctx, name, targets.ToReturn)
}

// DrainForDelete drains a replica that is removed: at least one other replica must be in rotation. With
// lastAllowed, the only replica may be removed too.
func (r *Registrar[R]) DrainForDelete(ctx context.Context, name string, lastAllowed bool) error {
	if lastAllowed {
		return r.leave(ctx, name, targets.AsLast)
	}
	return r.leave(ctx, name, targets.ForGood)
}

func (r *Registrar[R]) leave(ctx context.Context, name string, how targets.Leaving) error {
	if err := r.Kind.Validate(r.Registration); err != nil {
		return r.operationError("drained", name, err)
	}
	seen := r.inRotation(ctx, name)
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := r.MayLeave(ctx, name, seen, how, r.outOfRotation); err != nil {
		return err
	}
	t, known := seen[name]
	if !known || t.Unreachable != nil && t.NotReady != nil {
		return nil // a machine that is down serves nobody
	}
	others := maps.Clone(seen.Serving())
	delete(others, name)
	err := r.Withdraw(ctx, t, how, len(others) > 0)
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

// Withdraw returns when no client is sent to the machine of t. how says why it leaves, and others whether another
// replica is in rotation.
func (r *Registrar[R]) Withdraw(ctx context.Context, t targets.Target, how targets.Leaving, others bool) error {
	answer, err := endpoint.RunOwned(ctx, r.Machine(t.Address), r.Kind.drain(r.Registration, t.Name, how))
	if errors.Is(err, endpoint.ErrOther) || err == nil && answer == endpoint.Absent {
		return nil // the machine serves nobody of this endpoint, or has another replica by now
	}
	if err != nil {
		return err
	}
	return r.Kind.Leave(ctx, r, t, others)
}

// Undrain reverts Drain and DrainForDelete if the replica is still registered. Its agent serves the address again
// when the API server is ready.
func (r *Registrar[R]) Undrain(ctx context.Context, name string) error {
	if r.Hosts[name] == "" {
		return nil
	}
	_, err := endpoint.RunOwned(ctx, r.Machine(r.Hosts[name]), r.Kind.admit(r.Registration, name))
	if errors.Is(err, endpoint.ErrOther) {
		return nil
	}
	return r.operationError("put back", name, err)
}

// inRotation observes all targets. One that is ready, and whose agent does not serve the address, is not ready for
// requests. leaver is the replica that is to leave, or "".
func (r *Registrar[R]) inRotation(ctx context.Context, leaver string) targets.Observed {
	return r.ObserveInRotation(ctx, leaver, r.outOfRotation)
}

// outOfRotation returns why the agent of a target that is ready does not let clients reach it, or nil.
func (r *Registrar[R]) outOfRotation(ctx context.Context, t targets.Target) error {
	if t.Unreachable != nil { // other machines find it ready, and nobody can ask its agent
		return fmt.Errorf("%w: %w", targets.ErrUnknown, t.Unreachable)
	}
	m := r.ObserveMachine(ctx, t.Address)
	if m.Err != nil {
		return fmt.Errorf("%w: %w", targets.ErrUnknown, m.Err)
	}
	return r.Kind.OutOfRotation(r.Registration, m)
}

// OutOfRotation returns the replicas that get no requests, name → host:port.
func (r *Registrar[R]) OutOfRotation(ctx context.Context) (map[string]string, error) {
	return r.inRotation(ctx, "").OutOfRotation(), ctx.Err()
}

// Serving returns the replicas that get requests, now or when they hold the address, name → host:port.
func (r *Registrar[R]) Serving(ctx context.Context) (map[string]string, error) {
	return r.inRotation(ctx, "").Serving(), ctx.Err()
}

// Health observes the targets. It never fails: what is wrong is in the result. The endpoint is not requested: this
// computer may not be where clients are.
func (r *Registrar[R]) Health(ctx context.Context) targets.Health {
	h := targets.HealthOf(r.inRotation(ctx, ""))
	h.URL = r.BaseURL()
	h.Silence = r.Kind.Silence(ctx, r, h)
	return h
}
