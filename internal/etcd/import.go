package etcd

import (
	"context"
	"fmt"
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// Import reads the description of a machine's member from the machine. It changes nothing.
// It queries the member list on the machine, with the certificate that is there, because
// the caller may have no bundle yet.
func (c *Clusters) Import(ctx context.Context, h *host.Host) (machine.Imported, error) {
	facts, err := c.machine(h).Observe(ctx, host.Query{
		Contents: slices.Concat([]string{layout.UnitPath, layout.RecordPath, machine.LivenessTimerPath}, machine.RuntimePaths,
			machine.FactsPaths, snapshot.Paths, []string{machine.ClusterCAPath}),
		SharedDirs: []string{layout.DefaultDataDir}, SharedEntries: []string{machine.MemberDir},
		Units:  []string{layout.Unit},
		Script: machine.RuntimeQuestion() + machine.ListScript,
		Vars: map[string]string{
			"unit": layout.UnitPath, "pod": layout.PodPath, "endpoint": membership.ClientURL(h.Address()),
			"pki": layout.PKIDir,
		},
	})
	if err != nil {
		return machine.Imported{}, fmt.Errorf("check for an etcd member on %s: %w", h.Address(), err)
	}
	return machine.ReadImported(h, facts)
}
