package etcd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/wait"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// verdictLasts returns how long a verdict is valid. It leaves time for one more
// observation, in which the member is silent again.
func (cl *cluster) verdictLasts() time.Duration { return cl.pace.DeadAfter + 4*client.RequestTimeout }

// examine reports whether a member that was unhealthy in one observation is dead. It asks
// the member repeatedly, on its own machine and through every other one, until the member
// answers or has been silent for long enough. An error is an answer too: a dead member
// returns none.
func (cl *cluster) examine(ctx context.Context, s Spec, m membership.Member) (membership.DeathVerdict, error) {
	problem.Progress(ctx, "etcd %s: member %s does not answer; it counts as dead if it does not answer for %s", s.Name,
		m.Label(), cl.pace.DeadAfter)
	var heard membership.Unanswered
	for !heard.Dead(cl.pace.DeadAfter) {
		begin := time.Now()
		answered, err := cl.answers(ctx, s, m)
		switch {
		case err != nil:
			return membership.DeathVerdict{}, err
		case answered:
			return membership.DeathVerdict{}, nil
		}
		heard.Add(begin, time.Now())
		if err := wait.Pause(ctx, cl.pace.DeadAfter/(2*membership.DeadSamples)); err != nil {
			return membership.DeathVerdict{}, fmt.Errorf("check whether member %s is dead: %w", m.Label(), err)
		}
	}
	return membership.DeathVerdict{ID: m.ID, At: time.Now()}, nil
}

// mayRestart returns why a member may not be restarted now, or nil. A member that is unhealthy may only have been late:
// if the others have no quorum without it, it is examined.
func (cl *cluster) mayRestart(ctx context.Context, s Spec, v membership.View, m membership.Member) error {
	err := membership.MayRestart(v, m.ID)
	if err == nil || membership.MayRestart(v.WithDead(m.ID), m.ID) != nil {
		return err
	}
	d, failed := cl.examine(ctx, s, m)
	if failed != nil {
		return failed
	}
	return membership.MayRestart(d.Mark(v, cl.verdictLasts()), m.ID)
}

// answers reports whether a member answers anything, on connections that are opened for
// this request. That it answers a handshake is enough: one whose server certificate has expired still votes. It returns
// an error if sshd on the member's machine forbids the connections.
func (cl *cluster) answers(ctx context.Context, s Spec, m membership.Member) (bool, error) {
	clients, err := cl.connectBy(s.Bundle, append(slices.Collect(maps.Values(s.Peers)), s.Host), machine.DialAny)
	if err != nil {
		return false, err
	}
	defer clients.Close()
	for _, address := range m.Addresses() {
		handshakes := make(chan bool, 1)
		go func() { handshakes <- clients.Handshakes(ctx, address) }()
		_, id, err := clients.MemberListInMemory(ctx, address)
		if handshaken := <-handshakes; id == m.ID || err != nil && (handshaken || client.IsAnswer(err)) {
			return true, nil
		}
	}
	if err := cl.checkAsked(ctx, m.Addresses()); err != nil {
		return false, err
	}
	return false, ctx.Err()
}
