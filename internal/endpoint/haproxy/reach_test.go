package haproxy

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// TestNotReachedError: the diagnostic tells a network that does not pass on who has the address
// from one that drops packets.
func TestNotReachedError(t *testing.T) {
	pool, err := host.NewPool(host.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s := Spec{Address: "10.0.0.100", Hosts: map[string]*host.Host{
		"a": pool.Host(host.Target{Address: "10.0.0.11"}), "b": pool.Host(host.Target{Address: "10.0.0.12"}),
	}}
	seen := map[string]balancer{"a": {local: []netip.Addr{netip.MustParseAddr("10.0.0.100")}}, "b": {}}
	for neighbour, want := range map[string]string{
		"FAILED":    "the network does not pass on who has it",
		"":          "neighbour entry missing",
		"REACHABLE": "b do not reach it: packets to it are dropped",
	} {
		err := notReachedError(s, s.Address, seen, map[string]string{"b": neighbour})
		if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "a holds the address") {
			t.Errorf("%q: %v, want %q", neighbour, err, want)
		}
	}
}
