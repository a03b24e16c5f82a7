package bgp

import (
	"context"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
)

// Health observes the targets. It never fails: what is wrong is in the result.
func (r *Registrar) Health(ctx context.Context) targets.Health {
	seen := r.inRotation(ctx)
	h := targets.HealthOf(seen)
	h.URL = r.BaseURL()
	if len(seen.Serving()) == 0 {
		h.Silence = "no machine announces the address"
	}
	return h
}
