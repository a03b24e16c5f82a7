package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// HoldsCluster reports whether a member of the bundle's cluster is on any of the machines.
// A machine that rejects the login, or whose host key is unknown, is not one of this
// provider. A machine that does not answer may be, so without a match on another machine
// its error is returned.
func (c *Clusters) HoldsCluster(ctx context.Context, hosts map[string]*host.Host, b *pki.Bundle) (bool, error) {
	cl := c.named(b.ClusterID)
	var mu sync.Mutex
	var found bool
	var unknown []error
	var group sync.WaitGroup
	for _, h := range hosts {
		group.Go(func() {
			facts, err := cl.machine(h).Observe(ctx, host.Query{Contents: []string{layout.RecordPath}})
			var m machine.Record
			held := err == nil && json.Unmarshal([]byte(facts.Files[layout.RecordPath].Content), &m) == nil && m.ClusterID == b.ClusterID
			mu.Lock()
			defer mu.Unlock()
			found = found || held
			if err != nil && !errors.Is(err, host.ErrAuth) && !errors.Is(err, host.ErrHostKey) {
				unknown = append(unknown, fmt.Errorf("check for etcd on %s: %w", h.Address(), err))
			}
		})
	}
	group.Wait()
	if found {
		return true, nil
	}
	return false, errors.Join(unknown...)
}
