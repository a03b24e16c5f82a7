package simulated

import (
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/haproxy"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// TestUnreachableHolder: the machine with the address serves, and cannot be reached over SSH. The others are repaired,
// reach the address, and the error is about that machine.
func TestUnreachableHolder(t *testing.T) {
	fleet, p := bareOn(t, 1)
	if _, err := haproxy.Create(t.Context(), p.endpoint); err != nil {
		t.Fatal(err)
	}
	holder := fleet.clusters[0].machines[0]
	pool, err := host.NewPool(host.Config{Overrides: map[string]host.Override{
		holder.address: {Address: "127.0.0.1", Port: 1}, // where nothing listens
	}})
	if err != nil {
		t.Fatal(err)
	}
	s := p.withHosts("cp2", "cp3")
	s.Hosts[holder.name] = pool.Host(host.Target{Address: holder.address})
	fleet.Count()
	_, err = haproxy.Update(t.Context(), s, s)
	if err == nil || !strings.Contains(err.Error(), "changed only on the hosts that could be reached") {
		t.Errorf("got %v", err)
	}
	if c := fleet.Count(); c.Kinds["reach"] == 0 {
		t.Errorf("the address was not tried: %v", c.Kinds)
	}
}
