package kubevip

import (
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/agent"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/bgp"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

var testPasswords = map[string]string{"spine": "Jk8_x"}

// bgpSpec is an endpoint of two machines and two routers of one autonomous system.
func bgpSpec() Spec {
	return Spec{
		ClusterID: testCluster, Address: "10.200.0.1", Mode: BGP,
		Targets: map[string]string{"cp1": "10.0.0.11", "cp2": "10.0.0.12"},
		Announcement: endpoint.Announcement{ASN: 65001, Peers: []endpoint.Peer{
			{Address: "10.9.0.2", ASN: 65000, Multihop: 2, Password: "spine"},
			{Address: "10.0.0.1", ASN: 65000},
		}},
	}
}

const bgpHealthy = `own eth0 24
registered
address
program
credential
running
session 10.0.0.1:179
`

// announcing is the machine of cp1 as Register leaves it, with a session with one of two peers.
func announcing(r endpoint.Registration) machine {
	m := registered(testSpec().Registration())
	m.Owner, m.Report = endpoint.ReadOwner(r.Record("cp1")), parseReport(bgpHealthy, testOwn)
	delete(m.Facts.Commands, "base64")
	m.Facts.Files = map[string]host.FileState{}
	for _, f := range announcingFiles(bgp.At(r, "cp1"), "cp1", testOwn, "eth0", testPasswords) {
		m.Facts.Files[f.Path] = host.FileState{Mode: f.Mode, Owner: "root", Group: "root", SHA256: digest(f.Content)}
	}
	return m
}

// TestModeBGP: the registration says how the address is announced, and nobody needs a Lease.
func TestModeBGP(t *testing.T) {
	r := bgpSpec().Registration()
	if err := ValidateRegistration(r); err != nil {
		t.Error(err)
	}
	if r.Kind != endpoint.KubeVIP || r.BGP.HoldTime != 3*time.Second || r.BGP.Propagation != time.Second {
		t.Errorf("the registration is %+v, %+v", r, r.BGP)
	}
	if name, _ := LeaseOf(r); name != "" {
		t.Errorf("the replica needs the Lease %s", name)
	}
	if strings.Contains(r.Key(), testPasswords["spine"]) {
		t.Error("the registration contains a password")
	}
	if arp := testSpec().Registration(); arp.BGP != nil {
		t.Errorf("with ARP, the registration has %+v", arp.BGP)
	}
}

func TestValidateMode(t *testing.T) {
	for want, alter := range map[string]func(*Spec){
		"":                          func(*Spec) {},
		"asn, peers, hold_time and": func(s *Spec) { s.Mode = ARP },
		"are for the mode \"bgp\"": func(s *Spec) {
			s.Mode, s.Announcement = ARP, endpoint.Announcement{HoldTime: time.Minute}
		},
		"neither \"arp\" nor":              func(s *Spec) { s.Mode = "table" },
		"interface is for the mode":        func(s *Spec) { s.Interface = "eth1" },
		"is not the number of":             func(s *Spec) { s.Announcement.ASN = 0 },
		"has 0 peers":                      func(s *Spec) { s.Announcement.Peers = nil },
		"10.0.0.1 and 10.9.0.2 are of dif": func(s *Spec) { s.Announcement.Peers[0].ASN = 65010 },
		"peer 10.0.0.1: BFD of kube-vip":   func(s *Spec) { s.Announcement.Peers[1].BFD = true },
		"hold time 1s":                     func(s *Spec) { s.Announcement.HoldTime = time.Second },
		"propagation time 2m0s":            func(s *Spec) { s.Announcement.Propagation = 2 * time.Minute },
	} {
		s := bgpSpec()
		alter(&s)
		err := ValidateRegistration(s.Registration())
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	r := bgpSpec().Registration()
	r.BGP = nil
	if err := ValidateRegistration(r); err == nil || !strings.Contains(err.Error(), "neither an ASN nor peers") {
		t.Errorf("without an announcement: %v", err)
	}
}

// TestSecrets: a password that the configuration lacks is refused, and needs none with ARP.
func TestSecrets(t *testing.T) {
	if err := kind(nil).Secrets(bgpSpec().Registration()); !errors.Is(err, bgp.ErrNoPassword) {
		t.Error(err)
	}
	if err := kind(testPasswords).Secrets(bgpSpec().Registration()); err != nil {
		t.Error(err)
	}
	if err := kind(nil).Secrets(testSpec().Registration()); err != nil {
		t.Error(err)
	}
}

// TestAnnouncing: only a machine whose kube-vip has a session is in rotation, and a peer without one is drift.
func TestAnnouncing(t *testing.T) {
	const silent = "session with peer 10.9.0.2 is not established"
	r := bgpSpec().Registration()
	for name, c := range map[string]struct {
		alter func(*machine)
		out   error
		drift []string
	}{
		"one of two sessions": {func(*machine) {}, nil, []string{silent}},
		"all": {
			func(m *machine) { m.Report.Sessions = append(m.Report.Sessions, netip.MustParseAddr("10.9.0.2")) }, nil, nil,
		},
		"none": {func(m *machine) { m.Report.Sessions = nil }, errNoSession, []string{
			"out of rotation: " + errNoSession.Error(), "session with peer 10.0.0.1 is not established", silent,
		}},
		"no address": {
			func(m *machine) { m.Report.Address = false }, errNoAddress,
			[]string{"out of rotation: " + errNoAddress.Error(), silent},
		},
		"drained": {
			func(m *machine) { m.Report.Registered, m.Report.Running, m.Report.Sessions = false, false, nil }, agent.ErrDrained,
			[]string{"out of rotation: " + agent.ErrDrained.Error()},
		},
		"earlier peers": {
			func(m *machine) { m.Report.Stale = true }, nil,
			[]string{"kube-vip runs with earlier peers than those of " + peersPath, silent},
		},
		"no peers": {
			func(m *machine) { delete(m.Facts.Files, peersPath) }, nil, []string{peersPath + " is not there", silent},
		},
		"the port of another program": {func(m *machine) {
			m.Report.Running, m.Report.Sessions = false, nil
			m.Facts.Listeners = map[int]host.Listener{metricsPort: {Process: "nginx"}}
		}, errNotRunning, []string{
			errBusyPort.Error() + ": nginx on port 21790", "out of rotation: " + errNotRunning.Error(),
		}},
	} {
		m := announcing(r)
		c.alter(&m)
		if err := outOfRotation(r, m); !errors.Is(err, c.out) || (err == nil) != (c.out == nil) {
			t.Errorf("%s: out of rotation because %v, want %v", name, err, c.out)
		}
		if got := kind(testPasswords).Drift(r, "cp1", testOwn, m); !slices.Equal(got, c.drift) {
			t.Errorf("%s: drift is %q, want %q", name, got, c.drift)
		}
	}
	if next := nextStep(errNoAddress); !strings.Contains(next, "what removes the address") {
		t.Errorf("without the address: %q", next)
	}
	m := announcing(r)
	m.Facts.Files[peersPath] = host.FileState{}
	if got := kind(nil).Drift(r, "cp1", testOwn, m); !slices.Equal(got, []string{silent}) {
		t.Errorf("peers with an unknown password are compared: %q", got)
	}
}

func TestWithdrawn(t *testing.T) {
	lost := errors.New("unreachable")
	for want, m := range map[error]machine{
		nil: {Report: report{Address: true}}, lost: {Err: lost}, errStillAnnounced: {Report: report{Running: true}},
	} {
		if err := checkWithdrawn(m); !errors.Is(err, want) || (err == nil) != (want == nil) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	m := machine{Report: report{Sessions: []netip.Addr{testOwn}}}
	if err := checkWithdrawn(m); !errors.Is(err, errStillAnnounced) {
		t.Errorf("with a session: %v", err)
	}
}

func TestSessions(t *testing.T) {
	got := parseReport("session 10.0.0.1:179\nsession [fd00::1]:179\nsession 10.0.0.1\nsession [fe80::1%eth0]:179\n"+
		"session \x1b[2J:179\nsession 10.0.0.1:179 x\nsession\n", testOwn)
	want := []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")}
	if !slices.Equal(got.Sessions, want) {
		t.Errorf("%v, want %v", got.Sessions, want)
	}
}

// TestRenderAnnouncer: the peers are in a file of their own, the times follow from the settings, and nothing asks the
// endpoint.
func TestRenderAnnouncer(t *testing.T) {
	s := bgpSpec()
	s.Announcement.HoldTime, s.Announcement.Propagation = 9*time.Second, 1200*time.Millisecond
	r := s.Registration()
	text := renderAnnouncer(r, "cp1", testOwn, "eth0")
	have := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && have[name] == "" {
			have[name] = strings.Trim(value, "'")
		}
	}
	want := map[string]string{
		"asn": "65001", "hold": "9", "keepalive": "3", "pauses": "3", "router_id": "10.0.0.11", "vip": "10.200.0.1",
		"url": "https://10.0.0.11:6443/readyz", "device": "eth0", "length": "32", "peers": "peers.yaml",
	}
	maps.DeleteFunc(have, func(name, _ string) bool { return want[name] == "" })
	if !maps.Equal(have, want) {
		t.Errorf("%v, want %v", have, want)
	}
	if strings.Contains(text, "https://10.200.0.1") || strings.Contains(text, "Jk8_x") {
		t.Error("the agent asks the endpoint, or has a password")
	}
	const peers = `bgpConfig:
  peers:
    - {address: '10.0.0.1', as: 65000, port: 179, multiHop: false, password: ''}
    - {address: '10.9.0.2', as: 65000, port: 179, multiHop: true, password: 'Jk8_x'}
`
	if got := renderPeers(r, testPasswords); !strings.HasSuffix(got, peers) {
		t.Errorf("the peers are\n%s", got)
	}
	if unit := announcerUnit(r.BGP.Propagation).render(); !strings.Contains(unit, "TimeoutStopSec=31s\n") ||
		!strings.Contains(unit, "LoadCredential=peers.yaml:"+peersPath+"\n") {
		t.Errorf("the unit is\n%s", unit)
	}
}
