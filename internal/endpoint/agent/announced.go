package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

const (
	// sessionTimeout limits the wait for the first session.
	sessionTimeout = 30 * time.Second
	// othersTimeout limits the wait for the other sessions after the first: a router may be down.
	othersTimeout = 5 * time.Second
)

// ErrNotAnnounced is why a replica that is ready gets no requests by BGP.
var ErrNotAnnounced = errors.New("its machine does not announce the endpoint's address")

// WaitUntilAnnounced returns when every peer of the machine of t knows the address, or when at least one does and the
// others do not answer. Then the network has had the time to follow. silent describes the peers that do not know it.
func (r *Registrar[R]) WaitUntilAnnounced(
	ctx context.Context, t targets.Target, silent func(m Machine[R]) []string,
) error {
	var lines []string
	first := time.Time{}
	err := targets.WaitUntil(ctx, sessionTimeout, func(ctx context.Context) error {
		m := r.ObserveMachine(ctx, t.Address)
		if m.Err != nil {
			return m.Err
		}
		lines = silent(m)
		if why := r.Kind.OutOfRotation(r.Registration, m); why != nil {
			first = time.Time{}
			if len(lines) > 0 {
				why = fmt.Errorf("%w: %s", why, strings.Join(lines, "; "))
			}
			return why
		}
		if first.IsZero() {
			first = time.Now()
		}
		if len(lines) > 0 && time.Since(first) < othersTimeout {
			return ErrNotAnnounced
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, line := range lines {
		problem.Progress(ctx, "replica %s: %s", t.Name, line)
	}
	return r.Propagate(ctx)
}

// Propagate waits until the network has followed an announcement or a withdrawal.
func (r *Registrar[R]) Propagate(ctx context.Context) error {
	select {
	case <-ctx.Done():
	case <-time.After(r.BGP.Propagation):
	}
	return ctx.Err()
}

// NotAnnounced returns why an endpoint by BGP answers nobody, or "". This computer may not be where clients are, and
// a machine of a replica may reach its own API server.
func NotAnnounced(h targets.Health) string {
	if len(h.NotReady) == len(h.Replicas) {
		return "no replica announces the address"
	}
	return ""
}
