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

// observable is a machine that can only be observed. It represents one of this provider, one
// of another party, or a dead one.
type observable struct {
	machine.Machine
	record string // "": it has none
	err    error
}

func (o observable) Observe(context.Context, host.Query) (host.Facts, error) {
	if o.record == "" {
		return host.Facts{}, o.err
	}
	return host.Facts{Files: map[string]host.FileState{layout.RecordPath: {Content: o.record}}}, o.err
}

// TestHoldsCluster verifies that only a machine that answers is evidence, and that a machine that
// rejects the login is not one of the provider.
func TestHoldsCluster(t *testing.T) {
	pool, err := host.NewPool(host.Config{})
	if err != nil {
		t.Fatal(err)
	}
	own, others := observable{record: `{"cluster_id": "a"}`}, observable{record: `{"cluster_id": "b"}`}
	bare, strange := observable{}, observable{err: fmt.Errorf("dial: %w", host.ErrAuth)}
	dead := observable{err: fmt.Errorf("dial: %w", host.ErrUnreachable)}
	for name, c := range map[string]struct {
		machines []observable
		held     bool
		unknown  bool
	}{
		"it holds a member":    {machines: []observable{own}, held: true},
		"one is enough":        {machines: []observable{dead, bare, own}, held: true},
		"another cluster's":    {machines: []observable{others, bare}},
		"all reject the login": {machines: []observable{strange, strange}},
		"one may hold it":      {machines: []observable{others, dead}, unknown: true},
		"none of them answers": {machines: []observable{dead, dead, dead}, unknown: true},
		"no machine at all":    {},
		"an invalid record":    {machines: []observable{{record: "{"}}, unknown: true},
		"one invalid record":   {machines: []observable{{record: `{"cluster_id": "$(id)"}`}, own}, held: true},
	} {
		t.Run(name, func(t *testing.T) {
			hosts, at := map[string]*host.Host{}, map[string]observable{}
			for i, m := range c.machines {
				address := fmt.Sprintf("10.0.0.%d", i+1)
				hosts[address], at[address] = pool.Host(host.Target{Address: address}), m
			}
			clusters := NewClusters()
			clusters.machine = func(h *host.Host) machine.Machine { return at[h.Address()] }
			held, err := clusters.HoldsCluster(t.Context(), hosts, &pki.Bundle{ClusterID: "a"})
			if held != c.held || (err != nil) != c.unknown {
				t.Errorf("held: %v, %v; want %v, an error: %v", held, err, c.held, c.unknown)
			}
		})
	}
}
