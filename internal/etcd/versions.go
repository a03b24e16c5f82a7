package etcd

import (
	"context"
	"maps"
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Survey queries the cluster, through any of the hosts, for the versions of its members.
func (c *Clusters) Survey(ctx context.Context, hosts map[string]*host.Host, b *pki.Bundle) (membership.Survey, error) {
	clients, err := c.named(b.ClusterID).connectThrough(b, slices.Collect(maps.Values(hosts)))
	if err != nil {
		return membership.Survey{}, err
	}
	defer clients.Close()
	v, err := clients.View(ctx, hostAddresses(hosts))
	if err != nil {
		return membership.Survey{}, &problem.Problem{
			Summary: "etcd versions not read", Cause: err.Error(), Unchanged: problem.Nothing, Err: err,
			Next: "restore a quorum of the etcd members, and the machines through which they are reached, then try again",
		}
	}
	return clients.Survey(ctx, v), nil
}
