package etcd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/volume"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// exceptVolumes refuses a bootstrap if the machines have volumes with members of the cluster that are not mounted.
func (cl *cluster) exceptVolumes(
	ctx context.Context, clusterID string, s observation, d startDecision,
) (startDecision, error) {
	members, err := cl.unmountedMembers(ctx, clusterID, s)
	if err != nil || len(members) == 0 {
		return d, err
	}
	return startDecision{
		Reason: unmountedReason(members, "an empty cluster"),
		Next:   "apply the members of these volumes first (terraform apply -target=…), then this one; " + unmountedNext,
	}, nil
}

// unmountedMembers describes the members of a cluster on volumes that the machines that answer have and have not
// mounted: machines that were rebuilt get their volumes back, and have nothing else of the cluster. Each volume is
// mounted by the resource of its member, which may come later in this run, or not be part of it.
func (cl *cluster) unmountedMembers(ctx context.Context, clusterID string, s observation) ([]string, error) {
	var mu sync.Mutex
	unmounted := map[string][]volume.Unmounted{}
	err := eachOf(s.machines, func(address string, m machine.Observed) error {
		if !m.Reached() {
			return nil
		}
		facts, err := cl.machine(cl.machines()[address].host).Observe(ctx, host.Query{Script: volume.SearchScript()})
		if err != nil {
			return fmt.Errorf("look for volumes of members on %s: %w", m.Label(), err)
		}
		mu.Lock()
		defer mu.Unlock()
		unmounted[m.Label()] = volume.ReadUnmounted(facts.Output)
		return nil
	})
	return membersOnVolumes(clusterID, unmounted), err
}

// unmountedReason is the reason of a refusal: something would replace the data of members on volumes.
func unmountedReason(members []string, replacement string) string {
	return "the cluster has data on volumes that are not mounted, and " + replacement + " would replace it: " +
		strings.Join(members, "; ")
}

// unmountedNext is the other next step of that refusal.
const unmountedNext = "if that data is not needed, remove it yourself (wipefs --all, on each of these devices)"

// membersOnVolumes describes the members of a cluster on volumes, by the label of the machine.
func membersOnVolumes(clusterID string, unmounted map[string][]volume.Unmounted) []string {
	var members []string
	for label, volumes := range unmounted {
		for _, v := range volumes {
			if v.Identity.ClusterID == clusterID && v.Identity.Has() {
				members = append(members, fmt.Sprintf("member %q on %s of %s", v.Identity.Name, v.Device, label))
			}
		}
	}
	slices.Sort(members)
	return members
}
