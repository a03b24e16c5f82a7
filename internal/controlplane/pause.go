package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// pausedPath marks a replica that Pause has stopped. A boot starts the replica
// and removes the mark.
const pausedPath = "/run/kube-replica.paused"

// Beside is an etcd member's machine, as far as a replica on it is concerned.
type Beside struct {
	Host    *host.Host
	Bundle  *pki.Bundle
	EtcdURL string // of the member
	// Registrar is made from what the replica was registered with (Spec.Registration).
	Registrar func(registration json.RawMessage) (Registrar, error)
}

// Pause takes the replica that lives on this member alone out of rotation and
// stops it, before the member stops: its API server would fail every request
// for as long as that lasts, on connections that clients keep. One with other
// members to turn to stays, and one that does not serve has nothing to lose. A
// machine that cannot be reached is no obstacle.
func (r *Replicas) Pause(ctx context.Context, b Beside) error {
	s, _, err := b.replica(ctx)
	if s == nil || err != nil {
		return err
	}
	if !serves(ctx, *s, systemd{}) {
		return nil
	}
	problem.Progress(ctx, "%s: its etcd member is going to stop", s.machine())
	turn, _, err := r.stepAside(ctx, *s, true)
	if err != nil {
		return err
	}
	defer turn.end(true)
	problem.Progress(ctx, "%s: stopping the components until its etcd member serves again", s.machine())
	if _, err := s.Host.Run(ctx, host.Command{Script: "touch " + pausedPath + "\n" + systemd{}.pause()}); err != nil {
		return fmt.Errorf("pause replica %s: %w", s.machine(), err)
	}
	return nil
}

// Resume brings back what Pause has stopped, in this run or an earlier one,
// and registers it when it is ready. It does nothing for any other replica.
func (r *Replicas) Resume(ctx context.Context, b Beside) error {
	s, paused, err := b.replica(ctx)
	if s == nil || !paused || err != nil {
		return err
	}
	turn, err := r.turns.take(ctx, s.Bundle.ClusterID, s.Name)
	if err != nil {
		return err
	}
	err = bringUp(ctx, *s, systemd{}, desired{restart: Components()})
	if err == nil {
		err = s.Registrar.Register(ctx, s.Name, s.Address())
	}
	turn.end(err == nil)
	if err != nil {
		return unregistered(fmt.Errorf("resume replica %s: %w", s.machine(), err), "the etcd member is done; the replica stays out of rotation until it is applied again.")
	}
	problem.Progress(ctx, "%s: back in rotation", s.machine())
	return nil
}

// replica is the one on the machine that depends on this member, by its own
// record; nil when there is none. Of its spec only what pausing needs is known.
func (b Beside) replica(ctx context.Context) (s *Spec, paused bool, err error) {
	facts, err := b.Host.Observe(ctx, host.Query{Contents: []string{recordPath}, Files: []string{pausedPath}})
	if errors.Is(err, host.ErrUnreachable) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("look for a replica on %s: %w", b.Host.Address(), err)
	}
	// One that cannot be read is no replica that could be paused; its own Read says so.
	r, err := readRecord(facts.Files[recordPath].Content)
	if err != nil || r.ClusterID != b.Bundle.ClusterID || !slices.Equal(r.Etcd, []string{b.EtcdURL}) {
		return nil, false, nil
	}
	registrar, err := b.Registrar(r.Endpoint)
	if err != nil {
		return nil, false, fmt.Errorf("read the endpoint in %s on %s: %w", recordPath, b.Host.Address(), err)
	}
	_, paused = facts.Files[pausedPath]
	return &Spec{
		Name: r.Name, Host: b.Host, Bundle: b.Bundle, Port: r.Port, EtcdURLs: r.Etcd,
		Registration: r.Endpoint, Registrar: registrar,
	}, paused, nil
}
