package simulated

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/haproxy"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// stopping is in the command that stops keepalived on a host, and in no other.
const stopping = "# Removes the address from a host that leaves"

// configured names the machines in the order in which keepalived's configuration was sent to them.
var configured = regexp.MustCompile(`(?m)^    router_id (\S+)$`)

// created returns what a Create with these hosts sends to the machines, of which the first two have the endpoint.
func created(t *testing.T, change func(s *haproxy.Spec), names ...string) (p plane, sent string) {
	t.Helper()
	fleet, p := bareOn(t, 1)
	if _, err := haproxy.Create(t.Context(), p.withHosts("cp1", "cp2")); err != nil {
		t.Fatal(err)
	}
	received := &watch{}
	for _, m := range fleet.clusters[0].machines {
		received.on(m)
	}
	s := p.withHosts(names...)
	s.Machine = p.machine
	change(&s)
	if _, err := haproxy.Create(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	return p, received.text()
}

func expectOrder(t *testing.T, sent string, want ...string) {
	t.Helper()
	var got []string
	for _, match := range configured.FindAllStringSubmatch(sent, -1) {
		got = append(got, match[1])
	}
	if !slices.Equal(got, want) {
		t.Errorf("configured in the order %v, wanted %v", got, want)
	}
}

// TestAdoptedHosts: the Create of a renamed resource finds the endpoint and changes it as an Update does, so that no
// two machines have the address. The first machine has it.
func TestAdoptedHosts(t *testing.T) {
	_, sent := created(t, func(*haproxy.Spec) {}, "cp1", "cp2", "cp3")
	expectOrder(t, sent, "cp2", "cp1", "cp3")
	if strings.Contains(sent, cleaning) || strings.Contains(sent, stopping) {
		t.Error("hosts were cleaned or stopped")
	}

	_, sent = created(t, func(s *haproxy.Spec) { s.VirtualRouterID = 7 }, "cp1", "cp2")
	expectOrder(t, sent, "cp1", "cp2")
	if stop := strings.Index(sent, stopping); stop < 0 || stop > configured.FindStringIndex(sent)[0] {
		t.Error("two machines did not hear each other")
	}

	p, sent := created(t, func(*haproxy.Spec) {}, "cp1", "cp3")
	expectOrder(t, sent, "cp1", "cp3")
	if clean := strings.Index(sent, cleaning); clean < 0 || clean > configured.FindStringIndex(sent)[0] {
		t.Error("the host that leaves was not cleaned first")
	}
	p.expectDrift(t, p.withHosts("cp1", "cp3"), p.endpoint.Hosts["cp2"].Address(), false)
}

// TestAdoptedHostsLost: a host that leaves and does not answer may have the address, and would hear nobody. It is
// refused until the host is abandoned.
func TestAdoptedHostsLost(t *testing.T) {
	last, _, s := forgotten(t)
	pool, err := host.NewPool(host.Config{Overrides: map[string]host.Override{
		last.address: {Address: "127.0.0.1", Port: 1}, // where nothing listens
	}})
	if err != nil {
		t.Fatal(err)
	}
	s.Machine = func(address string) *host.Host { return pool.Host(host.Target{Address: address}) }
	_, err = haproxy.Create(t.Context(), s)
	if err == nil || !problem.Untouched(err) || !strings.Contains(err.Error(), `"`+last.address+`" to abandon`) {
		t.Errorf("got %v", err)
	}
	s.Abandon = host.AbandonedAt(last.address)
	if _, err := haproxy.Create(t.Context(), s); err != nil {
		t.Error(err)
	}
}

// TestAdoptedList: a host that leaves takes no list of replicas with it that no other host has.
func TestAdoptedList(t *testing.T) {
	fleet, p := bareOn(t, 1)
	if _, err := haproxy.Create(t.Context(), p.withHosts("cp1", "cp2")); err != nil {
		t.Fatal(err)
	}
	machines := fleet.clusters[0].machines
	registrar := p.registrars.For(p.withHosts("cp1").Registration())
	if err := registrar.Register(t.Context(), "cp3", machines[2].address+":6443"); err != nil {
		t.Fatal(err)
	}
	s := p.withHosts("cp2")
	s.Machine = p.machine
	fleet.Count()
	_, err := haproxy.Create(t.Context(), s)
	if err == nil || !problem.Untouched(err) || !strings.Contains(err.Error(), "apply twice") {
		t.Errorf("got %v", err)
	}
	if c := fleet.Count(); c.Kinds["claim"]+c.Kinds["change"] > 0 {
		t.Errorf("hosts were changed: %v", c.Kinds)
	}
}
