package provider

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
)

// memberOutage joins the two siblings that meet on a machine: while an etcd
// member does not serve, the replica that has no other member steps aside.
type memberOutage struct {
	replicas *controlplane.Replicas
	beside   controlplane.Beside
}

// Begins implements etcd.Outage.
func (o memberOutage) Begins(ctx context.Context) error { return o.replicas.Pause(ctx, o.beside) }

// Ended implements etcd.Outage.
func (o memberOutage) Ended(ctx context.Context) error { return o.replicas.Resume(ctx, o.beside) }

// registrar is the one that a machine's own record describes.
func (s *session) registrar(text json.RawMessage) (controlplane.Registrar, error) {
	var registration endpoint.Registration
	if err := json.Unmarshal(text, &registration); err != nil {
		return nil, fmt.Errorf("read registration: %w", err)
	}
	return s.registrars.For(registration), nil
}

// registrationText is what registrar reads.
func registrationText(r endpoint.Registration) json.RawMessage {
	text, _ := json.Marshal(r) // of strings, numbers and a map of strings: always encodes
	return text
}
