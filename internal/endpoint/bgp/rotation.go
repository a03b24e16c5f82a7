package bgp

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// undoTimeout limits Undrain after a failed drain, whose context may have ended.
const undoTimeout = 30 * time.Second

// Drain takes a replica out of rotation for a restart: its machine withdraws the address. All other
// replicas must be in rotation.
func (r *Registrar) Drain(ctx context.Context, name string) error {
	return r.leave(ctx, name, targets.ToReturn)
}

// DrainForDelete drains a replica that is removed: at least one other replica must be in rotation.
// With lastAllowed, the only replica may be removed too.
func (r *Registrar) DrainForDelete(ctx context.Context, name string, lastAllowed bool) error {
	if lastAllowed {
		return r.leave(ctx, name, targets.AsLast)
	}
	return r.leave(ctx, name, targets.ForGood)
}

func (r *Registrar) leave(ctx context.Context, name string, how targets.Leaving) error {
	seen := r.inRotation(ctx)
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := r.MayLeave(name, seen, how); err != nil {
		return err
	}
	t, known := seen[name]
	if !known || t.Unreachable != nil && t.NotReady != nil {
		return nil // a machine that is down announces nothing
	}
	err := r.withdraw(ctx, t)
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

// withdraw returns when no peer has the route from the machine any more.
func (r *Registrar) withdraw(ctx context.Context, t targets.Target) error {
	answer, err := endpoint.RunOwned(ctx, r.Machine(t.Address),
		owned("# take the replica out of rotation\n", drainScript, r.Registration, nil))
	if errors.Is(err, endpoint.ErrOther) || err == nil && answer == endpoint.Absent {
		return nil // it announces nothing for this endpoint
	}
	if err != nil {
		return err
	}
	m := observe(ctx, r.Machine(t.Address), r.Registration)
	if m.err != nil {
		return m.err
	}
	for peer, s := range m.report.Sessions {
		if s.Exported {
			return fmt.Errorf("%w (%s)", errStillAnnounced, peer)
		}
	}
	if err := r.propagate(ctx); err != nil {
		return err
	}
	_, err = endpoint.RunOwned(ctx, r.Machine(t.Address), host.Command{Script: closeScript, Vars: map[string]string{
		"prefix": prefixOf(r.Registration).String(), "port": strconv.Itoa(r.Port),
	}})
	return err
}

var errStillAnnounced = errors.New("its machine still announces the address")

// Undrain reverts Drain and DrainForDelete if the replica is still registered. Its machine announces
// the address again when the API server is ready.
func (r *Registrar) Undrain(ctx context.Context, name string) error {
	if r.Hosts[name] == "" {
		return nil
	}
	_, err := endpoint.RunOwned(ctx, r.Machine(r.Hosts[name]),
		owned("# put the replica into rotation\n", admitScript, r.Registration, nil))
	if errors.Is(err, endpoint.ErrOther) {
		return nil
	}
	return r.operationError("put back", name, err)
}

// inRotation observes all targets. One that is ready, and whose machine does not announce the
// address, is not ready for requests.
func (r *Registrar) inRotation(ctx context.Context) targets.Observed {
	return r.ObserveInRotation(ctx, func(ctx context.Context, t targets.Target) error {
		m := observe(ctx, r.Machine(t.Address), r.Registration)
		if m.err != nil {
			return m.err
		}
		return m.outOfRotation(r.Registration)
	})
}

// OutOfRotation returns the replicas that get no requests, name → host:port.
func (r *Registrar) OutOfRotation(ctx context.Context) (map[string]string, error) {
	return r.inRotation(ctx).OutOfRotation(), ctx.Err()
}

// Serving returns the replicas that get requests, name → host:port.
func (r *Registrar) Serving(ctx context.Context) (map[string]string, error) {
	return r.inRotation(ctx).Serving(), ctx.Err()
}

// Health observes the targets. It never fails: what is wrong is in the result. The endpoint is not
// requested: this computer may not be where clients are, and a machine of a replica always reaches its
// own API server.
func (r *Registrar) Health(ctx context.Context) targets.Health {
	h := targets.HealthOf(r.inRotation(ctx))
	h.URL = r.BaseURL()
	if len(h.NotReady) == len(h.Replicas) {
		h.Silence = "no replica announces the address"
	}
	return h
}
