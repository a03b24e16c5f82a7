package etcd

import (
	"context"
	"fmt"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/poll"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// readyToDowngrade reports whether the member may be restarted with the older minor version. It
// enables the downgrade in the cluster, and waits until the cluster works as that version and
// every member has converted its data, as etcd's guide wants it. Members that give up an upgrade on
// which the cluster has not agreed find all of this done. If the member may not be restarted
// yet, it has waited a moment.
func (c *updating) readyToDowngrade(ctx context.Context, v membership.View) (bool, error) {
	agreed := c.clients.ClusterVersion(ctx, v, 0)
	switch membership.NextDowngradeStep(v, agreed, c.s.Version) {
	case membership.DowngradeNone:
		return true, nil
	case membership.DowngradeWait:
		return false, c.waitOrRefuse(ctx, &v, notConverted(v, agreed, membership.MinorReported(c.s.Version)))
	case membership.DowngradeEnable:
	}
	if err := membership.RequireAllHealthy(v); err != nil {
		return false, c.waitOrRefuse(ctx, &v, err)
	}
	return false, c.enableDowngrade(ctx, v)
}

// enableDowngrade has the cluster work as the older version.
func (c *updating) enableDowngrade(ctx context.Context, v membership.View) error {
	minor := membership.MinorReported(c.s.Version)
	problem.Progress(ctx, "etcd: enabling the downgrade to %s: from now on the cluster works as that version", minor)
	err := c.clients.ViaVoter(ctx, v, 0, func(address string) error {
		return c.clients.EnableDowngrade(ctx, address, minor)
	})
	switch {
	case err != nil && client.Transient(err):
		return c.waitOrRefuse(ctx, &v, err)
	case err != nil:
		return c.notUpgraded(&v, fmt.Sprintf("etcd refuses the downgrade to %s: %s", minor, err),
			fmt.Sprintf("set version back to %s", c.step.From))
	}
	c.since.End()
	return nil
}

// notConverted describes what a downgrade waits for.
func notConverted(v membership.View, agreed, wanted string) error {
	if agreed != wanted {
		return fmt.Errorf("the cluster version is still %s, wanted %s", agreed, wanted)
	}
	var words []string
	for _, m := range v.Members {
		if m.Storage != "" && m.Storage != wanted {
			words = append(words, fmt.Sprintf("%s has data of version %s", m.Label(), m.Storage))
		}
	}
	return fmt.Errorf("members have not converted their data to version %s: %s", wanted, strings.Join(words, ", "))
}

// endDowngrade ends the downgrade when the last member runs the older version. etcd does so itself
// a few seconds later, unless it is configured not to look.
func (c *updating) endDowngrade(ctx context.Context) error {
	_, err := poll.Until(ctx, c.cl.pace.Poll, c.cl.pace.ConditionTimeout, func() (bool, error) {
		v, err := c.clients.View(ctx, c.cl.addresses(c.s))
		if err != nil {
			return false, nil // etcd ends it
		}
		if !membership.DowngradeEnded(v, c.s.Version) {
			return true, nil
		}
		err = c.clients.ViaVoter(ctx, v, 0, func(address string) error { return c.clients.CancelDowngrade(ctx, address) })
		if err != nil && client.Transient(err) {
			return false, nil
		}
		if err == nil {
			problem.Progress(ctx, "etcd: the downgrade to %s is complete", membership.MinorReported(c.s.Version))
		}
		return err == nil, err
	})
	if err != nil {
		return fmt.Errorf("end the downgrade to etcd %s, which every member runs: %w", c.s.Version, err)
	}
	return nil
}

// cancelDowngrade ends a downgrade that this member does not follow. The caller then observes
// everything again: etcd raises the cluster version when every member runs the newer one.
func (c *updating) cancelDowngrade(ctx context.Context, v membership.View, minor string) error {
	problem.Progress(ctx, "etcd: cancelling the downgrade to %s, because version is %s", minor, c.s.Version)
	err := c.clients.ViaVoter(ctx, v, 0, func(address string) error { return c.clients.CancelDowngrade(ctx, address) })
	if err == nil {
		err = fmt.Errorf("the downgrade to etcd %s is still enabled", minor)
	}
	return c.waitOrRefuse(ctx, &v, err)
}
