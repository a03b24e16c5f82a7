package etcd

import (
	"context"
	"fmt"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// looked is a machine that can only be observed. It represents one of this provider, one
// of another party, or a dead one.
type looked struct {
	machine.Machine
	marker string
	err    error
}

func (l looked) Observe(context.Context, host.Query) (host.Facts, error) {
	return host.Facts{Files: map[string]host.FileState{layout.RecordPath: {Content: l.marker}}}, l.err
}

// TestOurs verifies that only a machine that answers is evidence, and that a machine that
// rejects the login is not one of the provider.
func TestOurs(t *testing.T) {
	pool, err := host.NewPool(host.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ours, others := looked{marker: `{"cluster_id": "a"}`}, looked{marker: `{"cluster_id": "b"}`}
	bare, strange := looked{}, looked{err: fmt.Errorf("dial: %w", host.ErrAuth)}
	dead := looked{err: fmt.Errorf("dial: %w", host.ErrUnreachable)}
	for name, c := range map[string]struct {
		machines []looked
		ours     bool
		unknown  bool
	}{
		"ours":                     {machines: []looked{ours}, ours: true},
		"one of ours is enough":    {machines: []looked{dead, bare, ours}, ours: true},
		"another cluster's":        {machines: []looked{others, bare}},
		"nobody is let in":         {machines: []looked{strange, strange}},
		"one may be ours":          {machines: []looked{others, dead}, unknown: true},
		"none of them answers":     {machines: []looked{dead, dead, dead}, unknown: true},
		"no machine at all":        {},
		"a marker nobody can read": {machines: []looked{{marker: "{"}}},
	} {
		t.Run(name, func(t *testing.T) {
			hosts, at := map[string]*host.Host{}, map[string]looked{}
			for i, m := range c.machines {
				address := fmt.Sprintf("10.0.0.%d", i+1)
				hosts[address], at[address] = pool.Host(host.Target{Address: address}), m
			}
			clusters := NewClusters()
			clusters.machine = func(h *host.Host) machine.Machine { return at[h.Address()] }
			found, err := clusters.HoldsCluster(t.Context(), hosts, &pki.Bundle{ClusterID: "a"})
			if found != c.ours || (err != nil) != c.unknown {
				t.Errorf("ours: %v, %v; want %v, an error: %v", found, err, c.ours, c.unknown)
			}
		})
	}
}
