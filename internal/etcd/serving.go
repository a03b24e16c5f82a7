package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/wait"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// waitHealthy waits until the member that was started answers and is healthy. The caller
// holds the turn and does not give it up meanwhile.
func (cl *cluster) waitHealthy(
	ctx context.Context, clients *client.Clients, s Spec, id uint64,
) (membership.View, error) {
	begin := time.Now()
	w := cl.watchProgress(s, id, []string{s.PeerURL()}, func() time.Duration { return time.Since(begin) })
	v, err := w.Until(ctx, clients, s.Host.Address(), healthyMember)
	if err != nil {
		return v, cl.notServing(ctx, s, err)
	}
	return v, nil
}

// waitAnswering waits until the cluster of started members answers. It waits for
// pace.ConditionTimeout, and longer while a member makes progress or may be reading its
// database. The next observation shows whether the cluster answers.
func (cl *cluster) waitAnswering(ctx context.Context, specs map[string]Spec, one Spec) error {
	begin := time.Now()
	var watched []*machine.Watch
	for _, s := range specs {
		watched = append(watched, cl.watchProgress(s, 0, []string{s.PeerURL()}, func() time.Duration {
			return time.Since(begin)
		}))
	}
	for {
		if _, err := cl.view(ctx, one); err == nil || !errors.Is(err, client.ErrNoAnswer) {
			return err
		}
		over := true
		for _, w := range watched {
			w.Sample(ctx, nil)
			over = over && w.StuckFor(cl.pace.ConditionTimeout)
		}
		if over {
			return nil
		}
		if err := wait.Pause(ctx, cl.pace.Poll); err != nil {
			return err
		}
	}
}

// healthyMember returns "" for a healthy member, and the trouble of any other.
func healthyMember(m membership.Member) string {
	if m.Healthy {
		return ""
	}
	return "it " + cmp.Or(m.Trouble, "is unhealthy")
}

// notServing returns the problem of a member that was started and does not serve, with the
// end of its log.
func (cl *cluster) notServing(ctx context.Context, s Spec, err error) error {
	return &problem.Problem{
		Summary: "etcd member does not serve", Host: s.Label(), Cause: fmt.Sprintf("etcd was started, but %s", err), Err: err,
		Unchanged: "its files and data; the next apply continues from there.",
		Next:      "check its log (" + s.LogCommand() + "); port 2380 must be open between the members",
		Detail:    cl.lastLog(ctx, s),
	}
}

// watchProgress begins to watch the member with an ID, on one of the known machines.
func (cl *cluster) watchProgress(s Spec, id uint64, peerURLs []string, clock func() time.Duration) *machine.Watch {
	w := machine.NewWatch(id, cl.pace.Poll, cl.pace.StallTimeout, clock)
	for _, h := range append([]*host.Host{s.Host}, cl.hosts()...) {
		for _, u := range peerURLs {
			if w.Machine == nil && u == membership.PeerURL(h.Address()) {
				w.Machine = cl.machine(h)
			}
		}
	}
	return w
}

// lastLog returns what the unit's log says about a failure (logExcerpt).
func (cl *cluster) lastLog(ctx context.Context, s Spec) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cl.pace.Cleanup)
	defer cancel()
	log, err := machine.Log(ctx, cl.machine(s.Host), s.Spec, logRead)
	if err != nil {
		return "its log could not be read: " + err.Error()
	}
	return logExcerpt(log)
}

// waitServing waits until the member serves, healthy and with a version. It gives up early
// if the unit exits again and again.
func (c *updating) waitServing(ctx context.Context, version string) error {
	w := c.cl.watchProgress(c.s, c.f.MemberID(), []string{c.s.PeerURL()}, c.turn.Held)
	w.FailOnRestarts = true
	_, err := w.Until(ctx, c.clients, c.s.Host.Address(), func(m membership.Member) string {
		if trouble := healthyMember(m); trouble != "" {
			return trouble
		}
		if m.Version != version {
			return "etcd " + m.Version + " is still running"
		}
		return ""
	})
	return err
}
