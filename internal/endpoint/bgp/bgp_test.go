package bgp

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
)

const testCluster = "0123456789abcdef0123456789abcdef"

// testSpec is an endpoint of three machines and two routers, one of them with all options.
func testSpec() Spec {
	return Spec{
		ClusterID: testCluster, Address: "10.200.0.1",
		Targets: map[string]string{"cp1": "10.0.0.11", "cp2": "10.0.0.12", "cp3": "10.0.0.13"},
		ASN:     65001,
		Peers: []endpoint.Peer{
			{Address: "10.9.0.2", ASN: 65000, Multihop: 2, Password: "spine"},
			{Address: "10.0.0.1", ASN: 65000, BFD: true},
		},
		DrainTimeout: 10 * time.Second,
	}
}

func testSpec6() Spec {
	return Spec{
		ClusterID: testCluster, Address: "fd00:200::1", Targets: map[string]string{"cp1": "fd00::11"}, ASN: 4200000001,
		Peers: []endpoint.Peer{{Address: "fd00::1", ASN: 4200000000}},
	}
}

var testPasswords = map[string]string{"spine": "Jk8_x"}

// TestAnnouncedAt: facts ask the bird of the endpoint, also if it is an additional one.
func TestAnnouncedAt(t *testing.T) {
	r := endpoint.Registration{Address: "10.0.0.100", Additional: []endpoint.Registration{testSpec().Registration()}}
	want := map[string]string{"10.200.0.1": "bird:/run/kube-endpoint-bgp/bird.ctl"}
	if got := AnnouncedAt(r); !maps.Equal(got, want) {
		t.Errorf("announced are %v, want %v", got, want)
	}
}

func TestRegistration(t *testing.T) {
	s := testSpec()
	r := s.Registration()
	if r.Kind != endpoint.BGP || r.Port != 6443 || r.TargetPort != 6443 || r.DetectionTime != 0 {
		t.Errorf("registration is %+v", r)
	}
	if r.BGP.HoldTime != 3*time.Second || r.BGP.BFDInterval != 300*time.Millisecond || r.BGP.Propagation != time.Second {
		t.Errorf("the defaults are %+v", r.BGP)
	}
	if strings.Contains(r.Key(), testPasswords["spine"]) {
		t.Error("the registration contains a password")
	}
	slices.Reverse(s.Peers)
	if s.Registration().Key() != r.Key() {
		t.Error("the order of peers makes another registration")
	}
	if err := ValidateRegistration(r); err != nil {
		t.Error(err)
	}
	if err := ValidateRegistration(testSpec6().Registration()); err != nil {
		t.Error(err)
	}
}

func TestValidateRegistration(t *testing.T) {
	type altered = endpoint.Registration
	for name, c := range map[string]struct {
		alter func(*altered)
		want  string
	}{
		"a name":              {func(r *altered) { r.Address = "api.example.org" }, "not an IP address"},
		"another spelling":    {func(r *altered) { r.Address = "::ffff:10.0.0.1" }, "is not"},
		"loopback":            {func(r *altered) { r.Address = "127.0.0.1" }, "not an address that other"},
		"other kind":          {func(r *altered) { r.BGP = nil }, "neither an ASN nor peers"},
		"no targets":          {func(r *altered) { r.Hosts = nil }, "at least one target"},
		"other family":        {func(r *altered) { r.Hosts = map[string]string{"a": "fd00::1"} }, "same family"},
		"other port":          {func(r *altered) { r.TargetPort = 7443 }, "both are the same"},
		"no AS":               {func(r *altered) { r.BGP.ASN = 0 }, "is not the number of an autonomous"},
		"AS_TRANS":            {func(r *altered) { r.BGP.Peers[0].ASN = 23456 }, "is not the number of an autonomous"},
		"no peers":            {func(r *altered) { r.BGP.Peers = nil }, "has 0 peers"},
		"peer with a name":    {func(r *altered) { r.BGP.Peers[0].Address = "spine1" }, `"spine1" is not an IP`},
		"peer that is code":   {func(r *altered) { r.BGP.Peers[0].Address = "10.0.0.1; }" }, "is not an IP address"},
		"peer with a zone":    {func(r *altered) { r.BGP.Peers[0].Address = "fe80::1%eth0" }, "same family"},
		"peer twice":          {func(r *altered) { r.BGP.Peers[1] = r.BGP.Peers[0] }, "is there twice"},
		"peer is the address": {func(r *altered) { r.BGP.Peers[0].Address = r.Address }, "the endpoint itself"},
		"peer is a target":    {func(r *altered) { r.BGP.Peers[0].Address = "10.0.0.11" }, "the machine of target cp1"},
		"peer's family":       {func(r *altered) { r.BGP.Peers[0].Address = "fd00::1" }, "same family"},
		"hops":                {func(r *altered) { r.BGP.Peers[0].Multihop = 256 }, "256 hops"},
		"password's name":     {func(r *altered) { r.BGP.Peers[0].Password = `a";` }, "not the name of a password"},
		"hold time":           {func(r *altered) { r.BGP.HoldTime = time.Second }, "hold time 1s"},
		"fraction":            {func(r *altered) { r.BGP.HoldTime = 3500 * time.Millisecond }, "hold time 3.5s"},
		"BFD interval":        {func(r *altered) { r.BGP.BFDInterval = time.Millisecond }, "BFD interval 1ms"},
		"propagation":         {func(r *altered) { r.BGP.Propagation = time.Hour }, "propagation time 1h"},
	} {
		t.Run(name, func(t *testing.T) {
			r := testSpec().Registration()
			c.alter(&r)
			if err := ValidateRegistration(r); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// TestLimits: what is at a limit is valid, and what is beyond it is not.
func TestLimits(t *testing.T) {
	type altered = endpoint.Registration
	peers := func(n int) []endpoint.Peer {
		var all []endpoint.Peer
		for i := range n {
			all = append(all, endpoint.Peer{Address: netip.AddrFrom4([4]byte{10, 9, 1, byte(i)}).String(), ASN: 65000})
		}
		return all
	}
	for name, c := range map[string]struct {
		alter func(r *altered, n int)
		valid []int
		not   []int
	}{
		"peers": {func(r *altered, n int) { r.BGP.Peers = peers(n) }, []int{1, 16}, []int{0, 17}},
		"hops":  {func(r *altered, n int) { r.BGP.Peers[0].Multihop = n }, []int{0, 255}, []int{-1, 256}},
		"ASN":   {func(r *altered, n int) { r.BGP.ASN = uint32(n) }, []int{1, 65534, 65536}, []int{65535, 23456}},
		"hold time": {
			func(r *altered, n int) { r.BGP.HoldTime = time.Duration(n) * time.Second },
			[]int{3, 180},
			[]int{2, 181},
		},
		"propagation": {
			func(r *altered, n int) { r.BGP.Propagation = time.Duration(n) * time.Second },
			[]int{0, 60},
			[]int{-1, 61},
		},
		"BFD interval": {
			func(r *altered, n int) { r.BGP.BFDInterval = time.Duration(n) * time.Millisecond },
			[]int{50, 10000},
			[]int{49, 10001},
		},
	} {
		for _, n := range append(c.valid, c.not...) {
			r := testSpec().Registration()
			c.alter(&r, n)
			if err := ValidateRegistration(r); (err == nil) != slices.Contains(c.valid, n) {
				t.Errorf("%s %d: %v", name, n, err)
			}
		}
	}
}

// TestSpelling: an address has one spelling, so that equal ones are equal texts.
func TestSpelling(t *testing.T) {
	for _, address := range []string{"fd00:0200::1", "::ffff:10.200.0.1", "fd00:200::1%eth0"} {
		r := testSpec6().Registration()
		r.Address = address
		if err := ValidateRegistration(r); err == nil {
			t.Errorf("%s is accepted as the endpoint", address)
		}
		r = testSpec6().Registration()
		r.BGP.Peers[0].Address = address
		if err := ValidateRegistration(r); err == nil {
			t.Errorf("%s is accepted as a peer", address)
		}
	}
	r := testSpec6().Registration()
	r.Hosts = map[string]string{"cp1": "::ffff:10.0.0.11"}
	if err := ValidateRegistration(r); err == nil {
		t.Error("a target with IPv4 in IPv6 is accepted")
	}
}

func TestValidatePassword(t *testing.T) {
	for _, good := range []string{"a", "Jk8_x!#%(){}", strings.Repeat("x", 80)} {
		if err := ValidatePassword(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", `a"; bfd off; "`, "a b", "a\nb", `a\b`, "é", strings.Repeat("x", 81), "a'b", "a[b"} {
		if err := ValidatePassword(bad); err == nil || bad != "" && strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

const birdWanted = `# Managed by terraform-provider-kube. Manual changes are reported as drift and reverted.
log stderr all;
router id 10.0.0.11;

protocol device {
  scan time 10;
}

protocol direct endpoint {
  disabled;
  interface "lo";
  ipv4 {
    import where net = 10.200.0.1/32;
    export none;
  };
}

filter only_the_endpoint {
  if net = 10.200.0.1/32 && proto = "endpoint" then accept;
  reject;
}

protocol bfd liveness {
  strict bind yes;
  interface "*" {
    min rx interval 300 ms;
    min tx interval 300 ms;
    multiplier 3;
  };
  multihop {
    min rx interval 300 ms;
    min tx interval 300 ms;
    multiplier 3;
  };
}

protocol bgp peer_10_0_0_1 {
  local 10.0.0.11 as 65001;
  neighbor 10.0.0.1 as 65000;
  direct;
  bfd on;
  strict bind yes;
  hold time 3;
  keepalive time 1;
  startup hold time 10;
  connect delay time 1;
  connect retry time 2;
  error wait time 1, 4;
  graceful restart off;
  long lived graceful restart off;
  ipv4 {
    import none;
    export filter only_the_endpoint;
    next hop self;
  };
}

protocol bgp peer_10_9_0_2 {
  local 10.0.0.11 as 65001;
  neighbor 10.9.0.2 as 65000;
  multihop 2;
  password "Jk8_x";
  strict bind yes;
  hold time 3;
  keepalive time 1;
  startup hold time 10;
  connect delay time 1;
  connect retry time 2;
  error wait time 1, 4;
  graceful restart off;
  long lived graceful restart off;
  ipv4 {
    import none;
    export filter only_the_endpoint;
    next hop self;
  };
}
`

func TestRenderBird(t *testing.T) {
	own := netip.MustParseAddr("10.0.0.11")
	if got := renderBird(testSpec().Registration(), own, testPasswords); got != birdWanted {
		t.Errorf("rendered\n%s\nwant\n%s", got, birdWanted)
	}
	six := renderBird(testSpec6().Registration(), netip.MustParseAddr("fd00::11"), nil)
	for _, want := range []string{
		"import where net = fd00:200::1/128;", "local fd00::11 as 4200000001;", "  ipv6 {\n    import none;",
		"protocol bgp peer_fd00__1 {",
	} {
		if !strings.Contains(six, want) {
			t.Errorf("%q is not in\n%s", want, six)
		}
	}
	if strings.Contains(six, "protocol bfd") {
		t.Error("BFD runs although no peer has it")
	}
}

// TestRenderPrograms: values are quoted, and the endpoint's address is not asked.
func TestRenderPrograms(t *testing.T) {
	own := netip.MustParseAddr("fd00::11")
	health := renderHealth(testSpec6().Registration(), own)
	if !strings.Contains(health, "url='https://[fd00::11]:6443/readyz'\n") || strings.Contains(health, "fd00:200::1") {
		t.Errorf("the health check is\n%s", health)
	}
	address := renderAddress(testSpec6().Registration(), own)
	if !strings.Contains(address, "own=fd00::11\nprefix=fd00:200::1/128\n") {
		t.Errorf("the address program is\n%s", address)
	}
}

// TestAddressIsTriedAgain: a machine whose network comes later than its unit waits gets the address all the same.
func TestAddressIsTriedAgain(t *testing.T) {
	for _, line := range []string{"StartLimitIntervalSec=0\n", "Restart=on-failure\n", "RestartSec=5s\n"} {
		if unit := renderAddressUnit(); !strings.Contains(unit, line) {
			t.Errorf("the unit has no %q:\n%s", line, unit)
		}
	}
}

// TestPeersByTarget: a peer that is limited to the targets of its zone has no session with the others.
func TestPeersByTarget(t *testing.T) {
	zoneA := endpoint.Peer{Address: "10.0.0.1", ASN: 64513, Targets: []string{"cp1", "cp2"}}
	zoneB := endpoint.Peer{Address: "10.0.0.2", ASN: 64513, Targets: []string{"cp3"}}
	spine := endpoint.Peer{Address: "10.0.0.3", ASN: 64513}
	s := Spec{
		Address: "10.200.0.1", ASN: 64512,
		Targets: map[string]string{"cp1": "10.0.0.11", "cp2": "10.0.0.12", "cp3": "10.0.0.13"},
		Peers:   []endpoint.Peer{zoneB, zoneA, spine},
	}
	r := s.Registration()
	for target, want := range map[string]string{"cp1": "10.0.0.1 10.0.0.3", "cp3": "10.0.0.2 10.0.0.3"} {
		own := netip.MustParseAddr(s.Targets[target])
		var got []string
		for line := range strings.Lines(renderBird(At(r, target), own, nil)) {
			if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "neighbor "); ok {
				address, _, _ := strings.Cut(rest, " ")
				got = append(got, address)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s has sessions with %v, want %s", target, got, want)
		}
	}
	if len(r.BGP.Peers) != 3 {
		t.Error("the registration has lost peers")
	}
	for want, peers := range map[string][]endpoint.Peer{
		"":                              {zoneA, zoneB},
		"target cp3 has no peer":        {zoneA},
		`"cp9" is none of the endpoint`: {spine, {Address: "10.0.0.4", ASN: 64513, Targets: []string{"cp9"}}},
		"one is there twice":            {spine, {Address: "10.0.0.4", ASN: 64513, Targets: []string{"cp1", "cp1"}}},
	} {
		err := ValidatePeers(netip.MustParseAddr(s.Address), s.Targets, peers)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestOpenings: what a firewall must let in follows from the sessions.
func TestOpenings(t *testing.T) {
	got := openings([]endpoint.Peer{
		{Address: "10.0.0.1", ASN: 64513},
		{Address: "10.0.0.2", ASN: 64513, BFD: true},
		{Address: "10.9.0.2", ASN: 64513, BFD: true, Multihop: 2},
	})
	var text []string
	for _, o := range got {
		text = append(text, fmt.Sprint(o.From[0], " ", o))
	}
	want := []string{
		"10.0.0.1 179/tcp", "10.0.0.2 179/tcp", "10.0.0.2 3784/udp", "10.9.0.2 179/tcp", "10.9.0.2 4784/udp",
	}
	if !slices.Equal(text, want) {
		t.Errorf("openings are %q, want %q", text, want)
	}
}

// TestKeepPackages: a machine without the packages is refused if they must not be installed there.
func TestKeepPackages(t *testing.T) {
	complete := map[string]string{"bird": "/usr/sbin/bird", "birdc": "/usr/sbin/birdc", "curl": "/usr/bin/curl"}
	lacking := map[string]string{"bird": "/usr/sbin/bird", "birdc": "/usr/sbin/birdc", "apt-get": "/usr/bin/apt-get"}
	for name, c := range map[string]struct {
		keep     bool
		commands map[string]string
		want     error
	}{
		"installed":             {false, lacking, nil},
		"installed by others":   {true, complete, nil},
		"missing":               {true, lacking, errKeepPackages},
		"no manager":            {false, map[string]string{}, errPackages},
		"no manager, and given": {true, map[string]string{}, errKeepPackages},
	} {
		s, m := testSpec(), machine{Report: report{Own: true}}
		s.KeepPackages, m.Facts.Commands = c.keep, c.commands
		err := preflight(s.Registration(), targets.Target{Name: "cp1", Address: "10.0.0.11"}, m)
		if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if next := nextStep(errKeepPackages); !strings.Contains(next, "bgp.install_packages = true") {
		t.Errorf("the next step is %q", next)
	}
}
