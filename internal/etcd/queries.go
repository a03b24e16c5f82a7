package etcd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
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

// ReadKeys reads all keys of the cluster under a prefix, in key order and at one revision.
// It calls see once for each key. Any of the hosts that has a member with a quorum can
// answer. see must not keep a value; nothing else keeps or prints one.
func (c *Clusters) ReadKeys(
	ctx context.Context, hosts map[string]*host.Host, b *pki.Bundle, prefix string, see func(key string, value []byte),
) error {
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
			Summary: "etcd not read completely", Cause: "the keys under " + prefix + " were compacted while they were read, " +
				"so the rest of that revision is lost",
			Unchanged: problem.Nothing, Next: "apply again", Err: err,
		}
	}
	return &problem.Problem{
		Summary: "etcd not read", Cause: "the keys under " + prefix + " could not be read: " + err.Error(),
		Unchanged: problem.Nothing, Next: "restore a quorum of the etcd members, and the machines through which they " +
			"are reached, then apply again", Err: err,
	}
}

// HoldsCluster reports whether a member of the bundle's cluster is on any of the machines.
// A machine that rejects the login, or whose host key is unknown, is not one of this
// provider. A machine that does not answer may be, so without a match on another machine
// its error is returned.
func (c *Clusters) HoldsCluster(ctx context.Context, hosts map[string]*host.Host, b *pki.Bundle) (bool, error) {
	cl := c.named(b.ClusterID)
	var mu sync.Mutex
	var anyHeld bool
	var unknown []error
	var group sync.WaitGroup
	for _, h := range hosts {
		group.Go(func() {
			facts, err := cl.machine(h).Observe(ctx, host.Query{Contents: []string{layout.RecordPath}})
			held := false
			if record, ok := facts.Files[layout.RecordPath]; err == nil && ok {
				held, err = holds(record.Content, b.ClusterID)
			}
			mu.Lock()
			defer mu.Unlock()
			anyHeld = anyHeld || held
			if err != nil && !errors.Is(err, host.ErrAuth) && !errors.Is(err, host.ErrHostKey) {
				unknown = append(unknown, fmt.Errorf("check for etcd on %s: %w", h.Address(), err))
			}
		})
	}
	group.Wait()
	if anyHeld {
		return true, nil
	}
	return false, errors.Join(unknown...)
}

// holds reports whether a record names the cluster. It returns an error if the record is invalid: the machine may then
// have a member of the cluster.
func holds(record, clusterID string) (bool, error) {
	m, err := machine.ReadRecord(record)
	if err != nil {
		return false, fmt.Errorf("read %s: %w", layout.RecordPath, err)
	}
	return m.ClusterID == clusterID, nil
}

// APIServersOf returns the addresses of the API servers that use the cluster of the member on a
// machine, and store below /registry. It asks on the machine, as Import does.
func (c *Clusters) APIServersOf(ctx context.Context, h *host.Host) ([]string, error) {
	facts, err := c.machine(h).Observe(ctx, machine.APIServersQuery(h.Address(), client.MasterLeases))
	if err != nil {
		return nil, fmt.Errorf("ask the etcd member on %s for API servers: %w", h.Address(), err)
	}
	return machine.ReadAPIServers(facts.Output, client.MasterLeases), nil
}
