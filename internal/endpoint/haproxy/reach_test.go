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
	seen["a"] = balancer{unreachable: host.ErrUnreachable}
	err = notReachedError(s, s.Address, seen, map[string]string{"b": "FAILED"})
	if !strings.Contains(err.Error(), "Host: a (10.0.0.11)\n") || strings.Contains(err.Error(), "holds the address") ||
		!strings.Contains(err.Error(), "no host that can be reached has 10.0.0.100, and b do not reach it") {
		t.Errorf("the holder cannot be reached: %v", err)
	}
}
