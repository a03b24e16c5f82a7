package simulated

import (
	"maps"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/haproxy"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// cleaning is in the command that removes an endpoint from a machine, and in no other.
const cleaning = "rm -f /etc/keepalived/kube.conf"

// forgotten returns an endpoint of which the last machine has been forgotten, as after a failed addition.
func forgotten(t *testing.T) (last *machine, p plane, s haproxy.Spec) {
	t.Helper()
	fleet, p := bareOn(t, 1)
	if _, err := haproxy.Create(t.Context(), p.endpoint); err != nil {
		t.Fatal(err)
	}
	last = fleet.clusters[0].machines[perCluster-1]
	s = p.endpoint
	s.Machine, s.Hosts = p.machine, maps.Clone(s.Hosts)
	delete(s.Hosts, last.name)
	p.expectDrift(t, s, last.address, true)
	return last, p, s
}

func (p plane) expectDrift(t *testing.T, s haproxy.Spec, address string, want bool) {
	t.Helper()
	status, err := p.registrars.Read(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Contains(strings.Join(status.Drift, "\n"), address+" is not in haproxy.hosts")
	if got != want {
		t.Errorf("drift names %s: %v; it is %q", address, got, status.Drift)
	}
}

// TestForgottenHost: the state does not have a host whose addition has failed. When the configuration does not have it
// either, an Update and a Delete remove the endpoint from it: its keepalived hears nobody, and would take the address.
func TestForgottenHost(t *testing.T) {
	last, p, s := forgotten(t)
	received := &watch{}
	received.on(last)
	if _, err := haproxy.Update(t.Context(), s, s); err != nil {
		t.Error(err)
	}
	if !strings.Contains(received.text(), cleaning) {
		t.Errorf("update: %s has been told nothing of a removal", last.name)
	}
	p.expectDrift(t, s, last.address, false)

	last, _, s = forgotten(t)
	received = &watch{}
	received.on(last)
	err := haproxy.Delete(t.Context(), s, haproxy.DeleteOptions{}) // the others do not know how to clean themselves
	if !strings.Contains(received.text(), cleaning) {
		t.Errorf("delete: %s has been told nothing of a removal: %v", last.name, err)
	}
}

// TestForgottenHostLost: a forgotten host that does not answer stays known until it has been cleaned or abandoned.
func TestForgottenHostLost(t *testing.T) {
	last, p, s := forgotten(t)
	pool, err := host.NewPool(host.Config{Overrides: map[string]host.Override{
		last.address: {Address: "127.0.0.1", Port: 1}, // where nothing listens
	}})
	if err != nil {
		t.Fatal(err)
	}
	s.Machine = func(address string) *host.Host { return pool.Host(host.Target{Address: address}) }
	for range 2 {
		_, err := haproxy.Update(t.Context(), s, s)
		if err == nil || !strings.Contains(err.Error(), `"`+last.address+`" to abandon_unreachable_hosts`) {
			t.Errorf("update: %v", err)
		}
		p.expectDrift(t, s, last.address, true)
	}
	err = haproxy.Delete(t.Context(), s, haproxy.DeleteOptions{})
	if err == nil || !strings.Contains(err.Error(), problem.Nothing) {
		t.Errorf("delete: %v", err)
	}
	p.expectDrift(t, s, last.address, true)
	s.Abandon = host.AbandonedAt(last.address)
	if _, err := haproxy.Update(t.Context(), s, s); err != nil {
		t.Error(err)
	}
	p.expectDrift(t, s, last.address, false)
}
