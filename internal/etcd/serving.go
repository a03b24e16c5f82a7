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
	if other := (*otherVersionError)(nil); errors.As(err, &other) {
		return other.problem("etcd member not changed", s)
	}
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
	polls := 0 // for which it has been healthy with another version
	v, err := w.Until(ctx, c.clients, c.s.Host.Address(), func(m membership.Member) string {
		if trouble := healthyMember(m); trouble != "" {
			polls = 0
			return trouble
		}
		if m.Version != version {
			polls++
			return "etcd " + m.Version + " is still running"
		}
		return ""
	})
	if m, listed := v.Member(c.f.MemberID()); err != nil && listed && m.Healthy && polls >= otherVersionPolls {
		return otherVersion(c.s, m.Version, version)
	}
	return err
}

// otherVersionPolls is how often in a row a member must be healthy with another version than the wanted one.
const otherVersionPolls = 3

// otherVersionError means that a member serves, but with another version than the wanted one: the image, which a digest
// may name, has that.
type otherVersionError struct{ image, has, wanted string }

func otherVersion(s Spec, has, wanted string) *otherVersionError {
	e := &otherVersionError{has: has, wanted: wanted}
	if s.Runtime == machine.StaticPod {
		e.image = s.ContainerImage()
	}
	return e
}

func (e *otherVersionError) Error() string {
	if e.image == "" {
		return fmt.Sprintf("etcd %s serves, wanted %s", e.has, e.wanted)
	}
	return fmt.Sprintf("the image %s contains etcd %s, wanted %s", e.image, e.has, e.wanted)
}

// next returns what to do.
func (e *otherVersionError) next() string {
	if e.image == "" {
		return "correct version, or the programs in " + machine.ArtifactDir(e.wanted) + ", and apply again"
	}
	return "correct image or version, and apply again"
}

// problem returns the problem of a member that serves, and is left as it is.
func (e *otherVersionError) problem(summary string, s Spec) *problem.Problem {
	p := &problem.Problem{
		Summary: summary, Host: s.Label(), Cause: e.Error(), Err: e, Next: e.next(),
		Unchanged: fmt.Sprintf("%s serves with etcd %s, with its data; the other members were not changed.", s.Name, e.has),
	}
	if e.image != "" {
		p.Attribute = "image"
	}
	return p
}
