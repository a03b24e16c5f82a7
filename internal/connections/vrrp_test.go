package connections

import (
	"context"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/firewall"
)

// fakePeer hears what the others say, unless a firewall drops it.
type fakePeer struct {
	ether *ether
	deaf  bool // it has no Perl
	late  bool // it listens after the first round
	brief bool // its listener ends early
	mute  bool // it cannot send
}

// ether is what is on its way.
type ether struct {
	mu      sync.Mutex
	dropped []string // "from to"
	heard   map[netip.Addr]map[string][]netip.Addr
}

func (p fakePeer) Hear(_ context.Context, own netip.Addr, _ string, release <-chan struct{}) Heard {
	<-release
	p.ether.mu.Lock()
	defer p.ether.mu.Unlock()
	switch {
	case p.deaf:
		return Heard{}
	case p.late:
		delete(p.ether.heard[own], round0)
	}
	return Heard{p.ether.heard[own], !p.brief}
}

func (p fakePeer) Say(_ context.Context, own netip.Addr, tag string, _ int, to []netip.Addr) bool {
	if p.mute {
		return false
	}
	p.ether.mu.Lock()
	defer p.ether.mu.Unlock()
	round := tag[len(tag)-1:]
	for _, other := range to {
		if slices.Contains(p.ether.dropped, own.String()+" "+other.String()) {
			continue
		}
		if p.ether.heard[other] == nil {
			p.ether.heard[other] = map[string][]netip.Addr{}
		}
		p.ether.heard[other][round] = append(p.ether.heard[other][round], own)
	}
	return true
}

func TestCheckVRRP(t *testing.T) {
	const one, two, three = "10.0.0.11", "10.0.0.12", "10.0.0.13"
	pair, closed := []string{one + " " + two}, []string{one + " to " + two}
	for name, c := range map[string]struct {
		dropped []string
		change  func(peers map[string]*fakePeer)
		used    []string // nothing is created there now
		want    []string
	}{
		"open": {},
		"one does not let it in": {
			dropped: []string{one + " " + three, two + " " + three}, want: []string{one + " to " + three, two + " to " + three},
		},
		"one pair":                    {dropped: pair, want: closed},
		"on machines that run it":     {dropped: pair, used: []string{one, two}},
		"from one that runs it":       {dropped: pair, used: []string{one}, want: closed},
		"its own is dropped too":      {dropped: []string{one + " " + two, two + " " + two}},
		"the receiver has no Perl":    {pair, func(p map[string]*fakePeer) { p[two].deaf = true }, nil, nil},
		"the receiver listens late":   {pair, func(p map[string]*fakePeer) { p[two].late = true }, nil, nil},
		"the receiver ends early":     {pair, func(p map[string]*fakePeer) { p[two].brief = true }, nil, nil},
		"the sender cannot send":      {pair, func(p map[string]*fakePeer) { p[one].mute = true }, nil, nil},
		"the receiver cannot be sent": {pair, func(p map[string]*fakePeer) { p[two].mute = true }, nil, nil},
	} {
		e := &ether{dropped: c.dropped, heard: map[netip.Addr]map[string][]netip.Addr{}}
		peers := map[string]*fakePeer{one: {ether: e}, two: {ether: e}, three: {ether: e}}
		if c.change != nil {
			c.change(peers)
		}
		sides := map[netip.Addr]VRRPSide{}
		site := firewall.Site{Endpoint: "haproxy", Machines: map[firewall.Role][]netip.Addr{}}
		for address, peer := range peers {
			at := netip.MustParseAddr(address)
			sides[at] = VRRPSide{*peer, !slices.Contains(c.used, address)}
			site.Machines[firewall.Balancers] = append(site.Machines[firewall.Balancers], at)
		}
		var got []string
		for _, c := range CheckVRRP(t.Context(), site.VRRPBetween(), sides) {
			got = append(got, c.Remote.Addr().String()+" to "+c.Machine.String())
			if text := c.String(); !strings.Contains(text, " does not reach by VRRP (IP protocol 112) ") ||
				!strings.Contains(text, "meta l4proto 112 accept") {
				t.Errorf("%s: the refusal is %s", name, text)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestParseHeard(t *testing.T) {
	own, other := netip.MustParseAddr("10.0.0.11"), netip.MustParseAddr("fd00::12")
	for output, want := range map[string]Heard{
		"": {From: map[string][]netip.Addr{}},
		"0 10.0.0.11\n0 10.0.0.11\n1 fd00::12\nend\n": {map[string][]netip.Addr{"0": {own}, "1": {other}}, true},
		"0 10.0.0.11\n": {map[string][]netip.Addr{"0": {own}}, false},
		"2 10.0.0.11\n0 $(reboot)\n0 ::::\n0 10.0.0.11 x\nend of it\n": {From: map[string][]netip.Addr{}},
	} {
		if got := parseHeard(output); !reflect.DeepEqual(got, want) {
			t.Errorf("%q is read as %+v, want %+v", output, got, want)
		}
	}
}

// FuzzParseHeard verifies that who was heard are addresses without a zone, each once.
func FuzzParseHeard(f *testing.F) {
	f.Add("0 10.0.0.12\n1 fd00::12\nend\n")
	f.Add("0 fe80::1%eth0\n2 10.0.0.12\n0 $(id)\n")
	f.Fuzz(func(t *testing.T, output string) {
		for round, from := range parseHeard(output).From {
			seen := map[netip.Addr]bool{}
			for _, address := range from {
				if round != "0" && round != "1" || !address.IsValid() || address.Zone() != "" || seen[address] {
					t.Errorf("%q is parsed as %v in round %q", output, from, round)
				}
				seen[address] = true
			}
		}
	})
}
