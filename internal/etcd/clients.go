package etcd

import (
	"context"
	"fmt"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
)

// Clients are the API servers that use the cluster, which package etcd knows by
// their addresses only.
type Clients interface {
	// EtcdGeneration is the generation of the etcd authority that the API server
	// at an address runs with: what its process has loaded.
	EtcdGeneration(ctx context.Context, address string) (int, error)
}

// masterLeases is where API servers list themselves: one key each, which ends
// with its address, under a lease of 15 s (kube-apiserver's
// --endpoint-reconciler-type=lease). A dead one is forgotten within that time.
const masterLeases = "/registry/masterleases/"

// clients are the standings of all API servers that use the cluster.
func (c *conversation) clients(ctx context.Context, v *membership.View, clients Clients) []standing {
	addresses, err := c.apiServers(ctx, v)
	if err != nil {
		return []standing{{
			Who: "the API servers", Unknown: "the cluster does not tell who they are: " + err.Error(),
			Remedy: "bring back a quorum of the members (with rotation.etcd as it was), then apply again",
		}}
	}
	out := make([]standing, len(addresses))
	var group sync.WaitGroup
	for i, address := range addresses {
		group.Go(func() {
			out[i] = standing{Who: "the API server at " + address}
			generation, err := clients.EtcdGeneration(ctx, address)
			if err != nil {
				out[i].Unknown = err.Error()
				out[i].Remedy = "bring that API server back or stop it (it is forgotten within 15 s), then apply again"
			}
			out[i].Generation = generation
		})
	}
	group.Wait()
	return out
}

// apiServers are the addresses of the API servers that use the cluster.
func (c *conversation) apiServers(ctx context.Context, v *membership.View) ([]string, error) {
	if v == nil {
		return nil, errNoAnswer
	}
	var keys *clientv3.GetResponse
	err := c.viaVoter(ctx, *v, 0, func(address string) error {
		return c.call(ctx, address, askTimeout, func(ctx context.Context, member *clientv3.Client) (err error) {
			keys, err = member.Get(ctx, masterLeases, clientv3.WithPrefix(), clientv3.WithKeysOnly())
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", masterLeases, err)
	}
	var out []string
	for _, kv := range keys.Kvs {
		address, err := apiServerIn(string(kv.Key))
		if err != nil {
			return nil, err
		}
		out = append(out, address)
	}
	return out, nil
}
