package etcd

import (
	"context"
	"sync"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
)

// APIServers is the set of API servers that use the cluster. Package etcd knows only their
// addresses.
type APIServers interface {
	// EtcdGeneration returns the generation of the etcd authority that the process of the
	// API server at an address has loaded.
	EtcdGeneration(ctx context.Context, address string) (int, error)
}

// apiServerGenerations returns the stage of all API servers that use the cluster in a
// rotation.
func apiServerGenerations(ctx context.Context, c *client.Clients, v *membership.View, servers APIServers) []rotationStatus {
	addresses, err := c.ApiServers(ctx, v)
	if err != nil {
		return []rotationStatus{{
			Who: "the API servers", Unknown: "the cluster does not list them: " + err.Error(),
			Remedy: "restore a quorum of the members (with the previous value of rotation.etcd), then apply again",
		}}
	}
	out := make([]rotationStatus, len(addresses))
	var group sync.WaitGroup
	for i, address := range addresses {
		group.Go(func() {
			out[i] = rotationStatus{Who: "the API server at " + address}
			generation, err := servers.EtcdGeneration(ctx, address)
			if err != nil {
				out[i].Unknown = err.Error()
				out[i].Remedy = "recover or stop that API server (its registration expires within 15 s), then apply again"
			}
			out[i].Generation = generation
		})
	}
	group.Wait()
	return out
}
