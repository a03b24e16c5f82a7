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
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// outage connects an etcd member and a replica on the same machine. While the member does not
// serve, a replica that uses no other member is drained and paused.
func (s *session) outage(member *host.Host, bundle *pki.Bundle) *controlplane.Outage {
	return s.replicas.Outage(s.stacked(member, bundle))
}

// openOutage opens the outage of a member that the change of another one stops for a moment.
func (s *session) openOutage(member *host.Host, bundle *pki.Bundle) (etcd.Outage, func()) {
	o := s.outage(member, bundle)
	return o, o.Open()
}

// stacked describes a machine on which a replica may be.
func (s *session) stacked(machine *host.Host, bundle *pki.Bundle) controlplane.StackedMember {
	return controlplane.StackedMember{
		Host: machine, Bundle: bundle, EtcdURL: membership.ClientURL(machine.Address()),
		Registrar: func(recorded controlplane.Recorded) (controlplane.Registrar, error) {
			return s.registrar(recorded, bundle)
		},
	}
}

// opener is an outage that is open while a change may use it.
type opener interface{ Open() (end func()) }

var _ opener = (*controlplane.Outage)(nil)

// changing records that a change of a member has begun, on its machine and on the one that it leaves. The caller calls
// end when it is done.
func changing(s etcd.Spec) (end func()) {
	var ends []func()
	for _, outage := range []etcd.Outage{s.Outage, s.FormerOutage} {
		if o, ok := outage.(opener); ok {
			ends = append(ends, o.Open())
		}
	}
	return func() {
		for _, end := range ends {
			end()
		}
	}
}

// registrar returns the registrar for the replica that a machine of the cluster has recorded. While its endpoints
// change, that is the registrar of a replica which returns to those that it leaves: an apply that was to move it has
// failed, or was cut off, and it may be in rotation at both.
func (s *session) registrar(recorded controlplane.Recorded, bundle *pki.Bundle) (controlplane.Registrar, error) {
	at, err := recordedEndpoints(recorded.Registration, bundle)
	if err != nil {
		return nil, err
	}
	if len(recorded.Leaves) == 0 {
		return s.registrars.recorded(at, bundle.ClusterName), nil
	}
	leaves, err := recordedEndpoints(recorded.Leaves, bundle)
	if err != nil {
		return nil, err
	}
	return s.registrars.returning(recorded.Name, leaves, at, bundle.ClusterName), nil
}

// recordedEndpoints decodes a registration that a machine of the cluster has recorded. A machine
// that names the endpoint of another cluster is not believed, and one that names no cluster, as those of an earlier
// version, has an endpoint of its own: the balancers of another cluster refuse.
func recordedEndpoints(text json.RawMessage, bundle *pki.Bundle) (endpoint.Registration, error) {
	registration, err := registrationIn(text)
	if err == nil && registration.ClusterID != "" && registration.ClusterID != bundle.ClusterID {
		err = fmt.Errorf("it belongs to the cluster %s", problem.Quote(registration.ClusterID))
	}
	if err != nil {
		return registration, fmt.Errorf("read registration: %w", err)
	}
	registration = inCluster(registration, bundle)
	for i := range registration.Additional {
		registration.Additional[i] = inCluster(registration.Additional[i], bundle)
	}
	return registration, nil
}

// registrationText encodes a registration for registrar.
func registrationText(r endpoint.Registration) json.RawMessage {
	text, _ := json.Marshal(r) // strings, numbers and a map of strings always encode
	return text
}
