package haproxy

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// TestTwoHoldersNameTheRule: if two hosts have the address, the refusal says what to open between these two.
func TestTwoHoldersNameTheRule(t *testing.T) {
	s := threeHosts()
	holding := func(address string) balancer { return balancer{local: []netip.Addr{netip.MustParseAddr(address)}} }
	text := func(seen map[string]balancer) string {
		var p *problem.Problem
		if !errors.As(notHealthyError(s, seen), &p) {
			t.Fatal("not a problem")
		}
		return p.Next + "\n" + p.Detail
	}
	two := text(map[string]balancer{"cp1": holding(s.Address), "cp2": {}, "cp3": holding(s.Address)})
	one, three := s.Hosts["cp1"].Address(), s.Hosts["cp3"].Address()
	for _, want := range []string{
		"it hears no other", "let VRRP (IP protocol 112) in on " + one + " from " + three + " (ingress; ",
		"let VRRP (IP protocol 112) in on " + three + " from " + one + " (ingress; ",
		"nftables: ip saddr " + one + "/32 meta l4proto 112 accept",
	} {
		if !strings.Contains(two, want) {
			t.Errorf("%q is not in\n%s", want, two)
		}
	}
	if strings.Contains(two, s.Hosts["cp2"].Address()) {
		t.Errorf("a host that has not the address is named:\n%s", two)
	}
	for name, seen := range map[string]map[string]balancer{
		"one holder": {"cp1": holding(s.Address), "cp2": {}}, "none": {"cp1": {}, "cp2": {}},
	} {
		if got := text(seen); strings.Contains(got, "VRRP") {
			t.Errorf("%s: VRRP is blamed:\n%s", name, got)
		}
	}
}
