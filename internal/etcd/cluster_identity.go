package etcd

import (
	"context"
	"sync"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
)

// clusterIDsFor is how long the Reads of a refresh share one observation of the cluster
// IDs.
const clusterIDsFor = 15 * time.Second

// clusterIDs caches the ID of the cluster that each known machine last reported.
type clusterIDs struct {
	mu   sync.Mutex // held during the queries, so that parallel Reads query once
	at   time.Time
	last map[string]uint64 // by address
}

// served asks every known machine which etcd cluster it serves. Machines that do not
// answer are left out. A refresh asks once for all members.
func (cl *cluster) served(ctx context.Context, clients *client.Clients, s Spec) map[string]uint64 {
	cl.ids.mu.Lock()
	defer cl.ids.mu.Unlock()
	if cl.ids.last != nil && time.Since(cl.ids.at) < clusterIDsFor {
		return cl.ids.last
	}
	ids := clients.ServedClusters(ctx, cl.addresses(s))
	if ctx.Err() == nil {
		cl.ids.at, cl.ids.last = time.Now(), ids
	}
	return ids
}

// requireOneCluster refuses a change while members serve different clusters.
func (cl *cluster) requireOneCluster(ctx context.Context, s Spec) error {
	clients, err := cl.connect(s)
	if err != nil {
		return err
	}
	defer clients.Close()
	return membership.RequireOneCluster(clients.ServedClusters(ctx, cl.addresses(s)))
}
