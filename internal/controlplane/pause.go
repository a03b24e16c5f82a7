package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

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
	s, _, err := b.dependent(ctx)
	if s == nil || err != nil {
		return err
	}
	if !serves(ctx, *s, systemd{}) {
		return nil
	}
	problem.Progress(ctx, "%s: its etcd member is going to stop", s.machine())
	turn, _, err := r.stepAside(ctx, *s, func(turn) error { return nil }, true)
	if err != nil {
		return err
	}
	defer turn.end(true)
	r.pauses.begin(*s)
	problem.Progress(ctx, "%s: stopping the components until its etcd member serves again", s.machine())
	if _, err := s.Host.Run(ctx, host.Command{Script: "touch " + pausedPath + "\n" + systemd{}.pause(Components())}); err != nil {
		return fmt.Errorf("pause replica %s: %w", s.machine(), err)
	}
	return nil
}

// Resume brings back what Pause has stopped, in this run or an earlier one,
// and registers it when it is ready. One that lost its member otherwise is
// helped to find it again.
func (r *Replicas) Resume(ctx context.Context, b Beside) error {
	s, state, err := b.dependent(ctx)
	if s == nil || err != nil {
		return err
	}
	turn, err := r.turns.take(ctx, s.Bundle.ClusterID, s.Name)
	if err != nil {
		return err
	}
	if !state.paused {
		recollect(ctx, *s, state)
		turn.end(true) // what may be wrong with it is not of this change
		return nil
	}
	err = rise(ctx, *s, Components())
	turn.end(err == nil)
	if err != nil {
		return unregistered(fmt.Errorf("resume replica %s: %w", s.machine(), err), "the etcd member is done; the replica stays out of rotation until it is applied again.")
	}
	r.pauses.end(*s)
	problem.Progress(ctx, "%s: back in rotation", s.machine())
	return nil
}

// rise starts the named components, waits until the replica is ready, and puts it
// into rotation.
func rise(ctx context.Context, s Spec, components []string) error {
	if err := bringUp(ctx, s, systemd{}, desired{restart: components}); err != nil {
		return err
	}
	return s.Registrar.Register(ctx, s.Name, s.Address())
}

// pauses are the replicas that this process has paused and not yet brought back.
type pauses struct {
	mu  sync.Mutex
	now map[string]bool
}

func (p *pauses) begin(s Spec) { p.set(s, true) }
func (p *pauses) end(s Spec)   { p.set(s, false) }

func (p *pauses) set(s Spec, paused bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now == nil {
		p.now = map[string]bool{}
	}
	p.now[s.Bundle.ClusterID+"/"+s.Name] = paused
}

func (p *pauses) has(cluster, name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now[cluster+"/"+name]
}

// besideState is how a replica beside a member was found.
type besideState struct {
	paused  bool // by Pause
	running bool // its API server is
}

// recollectTime is how long an API server may take to find its member again by
// itself: it looks ever more seldom, up to two minutes apart, the longer the
// member was away.
const recollectTime = 5 * time.Second

// recollect sees to it that a replica which ran without its member serves again
// now that the member does, so that the next plan has nothing to say about it.
// What else may be wrong with the replica is not the member's failure.
func recollect(ctx context.Context, s Spec, state besideState) {
	if !state.running {
		return
	}
	soon, cancel := context.WithTimeout(ctx, recollectTime)
	defer cancel()
	w := waiting{reasons: map[string]string{}}
	var components []string
	if w.until(soon, s, apiServer(s)) != nil {
		components = []string{APIServer}
	}
	if err := rise(ctx, s, components); err != nil {
		problem.Progress(ctx, "%s: its etcd member serves again, the replica does not yet: %v", s.machine(), err)
	}
}

// dependent is the replica on the machine that lives on this member alone; nil
// when there is none.
func (b Beside) dependent(ctx context.Context) (*Spec, besideState, error) {
	s, state, err := b.replica(ctx)
	if s == nil || err != nil || !slices.Equal(s.EtcdURLs, []string{b.EtcdURL}) {
		return nil, state, err
	}
	return s, state, nil
}

// replica is the one on the machine, by its own record; nil when there is none.
// Of its spec only what pausing and resuming need is known.
func (b Beside) replica(ctx context.Context) (s *Spec, state besideState, err error) {
	facts, err := b.Host.Observe(ctx, host.Query{Contents: []string{recordPath}, Files: []string{pausedPath}, Units: []string{unitName(APIServer)}})
	if errors.Is(err, host.ErrUnreachable) {
		return nil, state, nil
	}
	if err != nil {
		return nil, state, fmt.Errorf("look for a replica on %s: %w", b.Host.Address(), err)
	}
	_, state.paused = facts.Files[pausedPath]
	state.running = facts.Units[unitName(APIServer)].Active == "active"
	// One that cannot be read is no replica that could be paused; its own Read says so.
	r, err := readRecord(facts.Files[recordPath].Content)
	if err != nil || r.ClusterID != b.Bundle.ClusterID {
		return nil, state, nil
	}
	registrar, err := b.Registrar(r.Endpoint)
	if err != nil {
		return nil, state, fmt.Errorf("read the endpoint in %s on %s: %w", recordPath, b.Host.Address(), err)
	}
	return &Spec{
		Name: r.Name, Host: b.Host, Bundle: b.Bundle, Port: r.Port, EtcdURLs: r.Etcd,
		Registration: r.Endpoint, Registrar: registrar,
	}, state, nil
}
