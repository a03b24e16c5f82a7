package simulated

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/haproxy"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// withHosts returns the endpoint with only those of its machines.
func (p plane) withHosts(names ...string) haproxy.Spec {
	s := p.endpoint
	s.Hosts = maps.Clone(s.Hosts)
	maps.DeleteFunc(s.Hosts, func(name string, _ *host.Host) bool { return !slices.Contains(names, name) })
	return s
}

// TestReplaceAllHosts: the hosts that have the list of replicas do not leave before another one has it.
func TestReplaceAllHosts(t *testing.T) {
	fleet, p := bareOn(t, 1)
	before, both := p.withHosts("cp1"), p.withHosts("cp1", "cp2")
	if _, err := haproxy.Create(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	machines := fleet.clusters[0].machines
	registrar := p.registrars.For(before.Registration())
	if err := registrar.Register(t.Context(), "cp3", machines[2].address+":6443"); err != nil {
		t.Fatal(err)
	}
	fleet.Count()
	_, err := haproxy.Update(t.Context(), before, p.withHosts("cp2"))
	if err == nil || !strings.Contains(err.Error(), "apply twice") {
		t.Errorf("all hosts at once: %v", err)
	}
	if c := fleet.Count(); c.Kinds["claim"]+c.Kinds["change"] > 0 {
		t.Errorf("hosts were changed: %v", c.Kinds)
	}
	if _, err := haproxy.Update(t.Context(), before, both); err != nil {
		t.Fatal(err)
	}
	list := machines[0].content(backendsPath)
	if got := machines[1].content(backendsPath); got != list || !strings.Contains(got, "server cp3 ") {
		t.Errorf("the added host lists\n%s\nwanted\n%s", got, list)
	}
}
