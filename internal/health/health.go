// Package health judges an observed control plane: its issues, and a summary of it. It gets what was observed and
// queries nothing.
package health

import (
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd"
)

// ControlPlane is the observed state of a whole control plane. It contains plain values only, and issues are derived
// from them alone.
type ControlPlane struct {
	NotQueried  string // why no query was possible; "" if there was one
	Etcd        etcd.Health
	Endpoint    Endpoint
	Replicas    map[string]Replica   // by name
	Authorities map[string]time.Time // expiry by authority; zero if it cannot be read
}
