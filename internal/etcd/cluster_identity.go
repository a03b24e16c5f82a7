package etcd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
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

// ofEarlierCluster describes why the data on a machine is not of the cluster in the view,
// or returns "". Causes are a restored disk, or a machine that was away while the cluster
// was destroyed and bootstrapped again. Such data is never started.
func (f observed) ofEarlierCluster(clusterID uint64) string {
	if f.Record == nil || f.Record.EtcdCluster == "" || f.Record.EtcdCluster == fmt.Sprintf("%x", clusterID) {
		return ""
	}
	return fmt.Sprintf("%s has data of etcd cluster %s, but the members serve cluster %x", f.label(), f.Record.EtcdCluster, clusterID)
}

// clustersOnMachines groups the machines with data by the etcd cluster in their records.
func clustersOnMachines(machines []observed) map[string][]observed {
	byID := map[string][]observed{}
	for _, m := range machines {
		if m.reached() && m.Data && m.Record != nil && m.Record.EtcdCluster != "" {
			byID[m.Record.EtcdCluster] = append(byID[m.Record.EtcdCluster], m)
		}
	}
	return byID
}

// differentClusters describes the data of different etcd clusters on the machines. It
// returns "" if there is only one cluster.
func differentClusters(machines []observed) string {
	byID := clustersOnMachines(machines)
	if len(byID) < 2 {
		return ""
	}
	var parts []string
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		parts = append(parts, fmt.Sprintf("cluster %s on %s", id, strings.Join(labels(byID[id]), ", ")))
	}
	return "the machines have data of different etcd clusters, of which at most one is the current one: " + strings.Join(parts, "; ")
}
