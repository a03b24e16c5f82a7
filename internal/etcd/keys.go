package etcd

import (
	"context"
	"maps"
	"slices"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// ReadKeys reads all keys of the cluster under a prefix, in key order and at one revision.
// It calls see once for each key. Any of the hosts that has a member with a quorum can
// answer. see must not keep a value; nothing else keeps or prints one.
func (c *Clusters) ReadKeys(ctx context.Context, hosts map[string]*host.Host, b *pki.Bundle, prefix string, see func(key string, value []byte)) error {
	clients, err := c.named(b.ClusterID).connectThrough(b, slices.Collect(maps.Values(hosts)))
	if err != nil {
		return err
	}
	defer clients.Close()
	clients.MaxAnswer = client.MaxPage
	err = clients.Read(ctx, clients.AnsweringFirst(ctx, hostAddresses(hosts)), prefix, see)
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case client.SameError(err, rpctypes.ErrCompacted):
		return &problem.Problem{
			Summary: "etcd not read completely", Cause: "the keys under " + prefix + " were compacted while they were read, so the rest of that revision is lost",
			Unchanged: problem.Nothing, Next: "apply again", Err: err,
		}
	}
	return &problem.Problem{
		Summary: "etcd not read", Cause: "the keys under " + prefix + " could not be read: " + err.Error(),
		Unchanged: problem.Nothing, Next: "restore a quorum of the etcd members, and the machines through which they are reached, then apply again", Err: err,
	}
}
