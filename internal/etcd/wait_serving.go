package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/wait"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// errNotServing means that etcd was started and does not serve.
var errNotServing = errors.New("it does not serve")

// waitHealthy waits until the member that was started answers and is healthy. The caller
// holds the turn and does not give it up meanwhile.
func (cl *cluster) waitHealthy(ctx context.Context, clients *client.Clients, s Spec, id uint64) (membership.View, error) {
	begin := time.Now()
	w := cl.watchProgress(s, id, []string{s.PeerURL()}, func() time.Duration { return time.Since(begin) })
	v, err := w.until(ctx, clients, s.Host.Address(), healthyMember)
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
	var watched []*progressWatch
	for _, s := range specs {
		watched = append(watched, cl.watchProgress(s, 0, []string{s.PeerURL()}, func() time.Duration { return time.Since(begin) }))
	}
	for {
		if _, err := cl.view(ctx, one); err == nil || !errors.Is(err, client.ErrNoAnswer) {
			return err
		}
		over := true
		for _, w := range watched {
			w.sample(ctx, nil)
			over = over && w.progress.stuck(w.clock(), cl.pace.ConditionTimeout)
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
		Summary: "etcd member does not serve", Host: s.label(), Cause: fmt.Sprintf("etcd was started, but %s", err), Err: err,
		Unchanged: "its files and data; the next apply continues from there.",
		Next:      "check its log (journalctl -u " + layout.Unit + "); port 2380 must be open between the members",
		Detail:    cl.lastLog(ctx, s),
	}
}
