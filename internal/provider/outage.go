package provider

import (
	"encoding/json"
	"fmt"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// outage joins the two siblings that meet on a machine: while an etcd member does
// not serve, the replica that has no other member steps aside.
func (s *session) outage(member *host.Host, bundle *pki.Bundle) *controlplane.Outage {
	return s.replicas.Outage(controlplane.Beside{
		Host: member, Bundle: bundle, EtcdURL: membership.ClientURL(member.Address()), Registrar: s.registrar,
	})
}

// changing says that a change of a member has begun. The caller ends it.
func changing(s etcd.Spec) (end func()) {
	outage, ok := s.Outage.(*controlplane.Outage)
	if !ok {
		return func() {}
	}
	return outage.Open()
}

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
