package simulated

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	cpmachine "github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
)

// unregistering is an endpoint at which no registration succeeds.
type unregistering struct{ controlplane.Registrar }

func (unregistering) Register(context.Context, string, string) error { return errors.New("refused") }

// TestRecordOfAMovingReplica: until a replica is registered at its new endpoints, its record names those that it
// leaves, so that a change of its etcd member drains it where it serves.
func TestRecordOfAMovingReplica(t *testing.T) {
	fleet, p := planeOn(t, 1)
	m, s := fleet.clusters[0].machines[0], p.servers[0]
	s.Leaves = json.RawMessage(`{"address":"10.0.0.99"}`)
	leaves := func() string {
		t.Helper()
		r, err := cpmachine.ReadRecord(m.content(cpmachine.RecordPath))
		if err != nil {
			t.Fatal(err)
		}
		return cpmachine.Compact(r.Leaves)
	}
	registrar := s.Registrar
	s.Registrar = unregistering{registrar}
	if _, err := p.replicas.Update(t.Context(), s); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Fatalf("the registration has not failed: %v", err)
	}
	if got := leaves(); got != string(s.Leaves) {
		t.Errorf("after a failed registration, the record has %s", got)
	}
	var recorded controlplane.Recorded
	err := p.replicas.Outage(controlplane.StackedMember{
		Host: s.Host, Bundle: s.Bundle, EtcdURL: s.EtcdURLs[0],
		Registrar: func(r controlplane.Recorded) (controlplane.Registrar, error) {
			recorded = r
			return registrar, nil
		},
	}).Ended(t.Context())
	if err != nil || cpmachine.Compact(recorded.Leaves) != string(s.Leaves) {
		t.Errorf("a change of the member sees %s, %v", recorded.Leaves, err)
	}
	s.Registrar = registrar
	for _, what := range []string{"repeated", "repeated again"} { // the second one is an apply whose state was lost
		if _, err := p.replicas.Update(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if got := leaves(); got != "null" {
			t.Errorf("%s: the record has %s", what, got)
		}
	}
	s.Leaves = nil
	if status, err := p.replicas.Read(t.Context(), s); err != nil || len(status.Drift) > 0 {
		t.Errorf("the next plan has %v, %v", status.Drift, err)
	}
}
