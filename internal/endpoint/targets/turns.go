package targets

import (
	"context"
	"sync"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
)

// Turns lets one machine of an endpoint at a time be changed in a way that interrupts its service. Its zero
// value is ready to use.
type Turns struct{ byEndpoint sync.Map } // endpoint → chan struct{}

// Take returns when no other machine of the endpoint is being changed. The caller calls done afterwards.
func (t *Turns) Take(ctx context.Context, r endpoint.Registration) (done func(), err error) {
	value, _ := t.byEndpoint.LoadOrStore(r.ClusterID+" "+r.Address, make(chan struct{}, 1))
	turn, _ := value.(chan struct{})
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
