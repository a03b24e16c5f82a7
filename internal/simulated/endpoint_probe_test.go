package simulated

import (
	"context"
	"fmt"
	"net"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// TestProbedByAnyOther: a replica whose machine is not reached by SSH is ready if one of the other machines finds it
// ready, also while another one does not answer.
func TestProbedByAnyOther(t *testing.T) {
	fleet, p := planeOn(t, 1)
	machines := fleet.clusters[0].machines
	lost, silent := machines[0], machines[1]
	listener, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	key, err := fleet.PrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	pool, err := host.NewPool(host.Config{
		Credentials: host.Credentials{PrivateKey: key},
		Overrides: map[string]host.Override{silent.address: {
			Address: "127.0.0.1", Port: listener.Addr().(*net.TCPAddr).Port, HostKey: fleet.hostKey(),
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	registration := endpoint.Registration{
		Kind: endpoint.External, ClusterID: p.endpoint.ClusterID, Address: "10.0.0.100", Hosts: map[string]string{},
	}
	names := map[string]string{}
	for _, m := range machines {
		names[m.address], registration.Hosts[m.name] = m.name, m.address
	}
	observer := targets.NewObserver(func(address string) *host.Host {
		if address == silent.address {
			return pool.Host(host.Target{Address: address})
		}
		return p.machine(address)
	}, func(_ context.Context, address string) (targets.Replica, error) {
		if address == lost.address {
			return targets.Replica{}, fmt.Errorf("dial: %w", host.ErrUnreachable)
		}
		return targets.Replica{
			Name: names[address], Port: apiPort, ClusterID: registration.ClusterID, Endpoints: []string{registration.ID()},
		}, nil
	})
	if seen := observer.For(registration).Observe(t.Context())[lost.name]; !seen.Ready() || seen.Unreachable == nil {
		t.Errorf("observed %+v", seen)
	}
}
