package simulated

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/external"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// TestStrangerAtFormerAddress: a target's machine is not reached by SSH, and an API server answers at its address. One
// of another cluster, whose machine has got the address, does not let the last replica leave.
func TestStrangerAtFormerAddress(t *testing.T) {
	fleet, p := planeOn(t, 1)
	last, gone := p.servers[0], fleet.clusters[0].machines[1]
	spec := external.Spec{
		ClusterID: p.endpoint.ClusterID, Address: "api.example.com",
		Targets: map[string]string{last.Name: last.Address, gone.name: gone.address},
	}
	observer := targets.NewObserver(p.machine, func(_ context.Context, address string) (targets.Replica, error) {
		if address == gone.address {
			return targets.Replica{}, fmt.Errorf("connect: %w", host.ErrUnreachable)
		}
		return targets.Replica{
			Name: last.Name, Port: 6443, ClusterID: spec.ClusterID, Endpoints: []string{spec.Registration().ID()},
		}, nil
	})
	r := external.New(observer).For(spec.Registration())
	if err := r.DrainForDelete(t.Context(), last.Name, false); err != nil {
		t.Errorf("another replica serves, and only its SSH is gone: %v", err)
	}
	gone.present(t)
	err := r.DrainForDelete(t.Context(), last.Name, true)
	var refusal *endpoint.Refusal
	if !errors.As(err, &refusal) || !refusal.Last || !strings.Contains(err.Error(), "another cluster") {
		t.Errorf("the last replica leaves, because another cluster's answers: %v", err)
	}
	observer.Abandoned = host.AbandonedAt(gone.address)
	if err := r.DrainForDelete(t.Context(), last.Name, true); err != nil {
		t.Errorf("the machine was abandoned: %v", err)
	}
}

// present makes the API server of the machine present a certificate of no cluster.
func (m *machine) present(t *testing.T) {
	t.Helper()
	pair, err := selfSigned()
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for suffix, block := range map[string]*pem.Block{
		".crt": {Type: "CERTIFICATE", Bytes: pair.Certificate[0]}, ".key": {Type: "PRIVATE KEY", Bytes: key},
	} {
		m.write("/etc/kubernetes/pki/apiserver"+suffix, file{content: string(pem.EncodeToMemory(block)), mode: "600"})
	}
}
