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

// clusterIDsFor is how long Reads of a refresh share one look at the cluster ids.
const clusterIDsFor = 15 * time.Second

// clusterIDs is what the known machines last said of the cluster that they serve.
type clusterIDs struct {
	mu   sync.Mutex // held while they are asked, so that parallel Reads ask once
	at   time.Time
	last map[string]uint64 // by address
}

// served asks every known machine which etcd cluster it serves; what does not
// answer is left out. A refresh asks once for all members.
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

// ofEarlierCluster says in words why the data on a machine is not of the cluster that the
// view shows, or "": a disk that was restored, or a machine that was away while the
// cluster ended and was founded again. Such data is never started.
func (f observed) ofEarlierCluster(clusterID uint64) string {
	if f.Record == nil || f.Record.EtcdCluster == "" || f.Record.EtcdCluster == fmt.Sprintf("%x", clusterID) {
		return ""
	}
	return fmt.Sprintf("%s holds data of etcd cluster %s, and the members serve cluster %x", f.label(), f.Record.EtcdCluster, clusterID)
}

// clustersOnMachines are the etcd clusters that the records on machines with data name.
func clustersOnMachines(machines []observed) map[string][]observed {
	byID := map[string][]observed{}
	for _, m := range machines {
		if m.reached() && m.Data && m.Record != nil && m.Record.EtcdCluster != "" {
			byID[m.Record.EtcdCluster] = append(byID[m.Record.EtcdCluster], m)
		}
	}
	return byID
}

// differentClusters says in words that data of different etcd clusters is on the
// machines, or "".
func differentClusters(machines []observed) string {
	byID := clustersOnMachines(machines)
	if len(byID) < 2 {
		return ""
	}
	var parts []string
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		parts = append(parts, fmt.Sprintf("cluster %s on %s", id, strings.Join(labels(byID[id]), ", ")))
	}
	return "the machines hold data of different etcd clusters, of which at most one is the living one: " + strings.Join(parts, "; ")
}
