package bgp

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/agent"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// healthy is the output of state.sh with bird 2.0.12, two peers, and one of them without a session.
const healthy = `own
registered
address
protocol BIRD 2.0.12 ready.
protocol Name       Proto      Table      State  Since         Info
protocol device1    Device     ---        up     12:21:53.055  
protocol liveness   BFD        ---        up     12:21:53.055  
protocol endpoint   Direct     ---        up     12:21:57.055  
protocol peer_10_0_0_1      BGP        ---        up     12:21:53.817  Established   
protocol peer_10_9_0_2      BGP        ---        start  12:21:53.817  Active        Socket: Connection refused
exported peer_10_0_0_1 BIRD 2.0.12 ready.
exported peer_10_0_0_1 Table master4:
exported peer_10_0_0_1 10.200.0.1/32        unicast [endpoint 12:21:57.055] * (240)
exported peer_10_0_0_1 	dev lo
exported peer_10_9_0_2 BIRD 2.0.12 ready.
`

var testPrefix = netip.MustParsePrefix("10.200.0.1/32")

func TestParseReport(t *testing.T) {
	want := report{Own: true, Registered: true, Address: true, Protocol: "up", Sessions: map[string]session{
		"peer_10_0_0_1": {State: "Established", Exported: true},
		"peer_10_9_0_2": {State: "Active", Reason: "Socket: Connection refused"},
	}}
	if got := parseReport(healthy, testPrefix); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	hostile := "own no\nregistered no\naddress no\nprotocol endpoint Static --- up 1\n" +
		"protocol peer_10_0_0_1 BGP --- up x \x1b[2J\n" +
		"protocol $(id) BGP --- up x Established\nexported peer100 10.200.0.1/32\n" +
		"exported peer_10_0_0_1 0.0.0.0/0 unicast\n" +
		"protocol peer_10_9_0_2 BGP --- start x Active \x1b]0;x\n"
	got := parseReport(hostile, testPrefix)
	want = report{
		Sessions: map[string]session{"peer_10_0_0_1": {State: "Down"}, "peer_10_9_0_2": {State: "Active"}},
		Foreign:  []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	// Lines that end early.
	short := "protocol endpoint Direct --- up\nprotocol peer_10_0_0_1 BGP --- start\n" +
		"protocol peer_10_9_0_2 BGP --- up 1\nexported peer_10_9_0_2\n"
	got = parseReport(short+"exported peer_10_9_0_2 10.200.0.1/32\n", testPrefix)
	want = report{Sessions: map[string]session{"peer_10_9_0_2": {State: "Down", Exported: true}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	got = parseReport("protocol peer_10_9_0_2 BGP --- up 1 Established\n", testPrefix)
	if s := got.Sessions["peer_10_9_0_2"]; !s.established() {
		t.Errorf("%+v", got)
	}
}

func TestOutOfRotation(t *testing.T) {
	r := testSpec().Registration()
	for name, c := range map[string]struct {
		alter func(string) string
		want  error
		peers int // that the address is not announced to
	}{
		"one of two peers": {func(s string) string { return s }, nil, 1},
		"drained":          {func(s string) string { return strings.Replace(s, "registered\n", "", 1) }, agent.ErrDrained, 1},
		"no address":       {func(s string) string { return strings.Replace(s, "address\n", "", 1) }, errNoAddress, 1},
		"withdrawn": {
			func(s string) string { return strings.Replace(s, "---        up     12:21:57", "--- down 1", 1) },
			agent.ErrNotAnnounced, 1,
		},
		"bird does not run": {func(string) string { return "own\nregistered\naddress\n" }, errNoBird, 2},
		"no session": {
			func(s string) string { return strings.Replace(s, "Established", "OpenSent", 1) }, errNoSession, 2,
		},
		"not exported": {
			func(s string) string {
				return strings.Replace(s, "peer_10_0_0_1 10.200.0.1/32", "peer_10_0_0_1 10.200.0.2/32", 1)
			},
			agent.ErrNotAnnounced, 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := machine{
				Owner:  endpoint.ReadOwner(r.Record("cp1")),
				Report: parseReport(c.alter(healthy), testPrefix),
			}
			if err := outOfRotation(r, m); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Errorf("out of rotation because %v, want %v", err, c.want)
			}
			if silent := silentPeers(m, r); len(silent) != c.peers {
				t.Errorf("silent peers are %q, want %d", silent, c.peers)
			}
		})
	}
	stranger := r
	stranger.ClusterID = strings.Repeat("f", 32)
	m := machine{Owner: endpoint.ReadOwner(stranger.Record("cp1")), Report: parseReport(healthy, testPrefix)}
	if err := outOfRotation(r, m); !errors.Is(err, endpoint.ErrOther) {
		t.Errorf("a machine of another cluster: %v", err)
	}
}

// TestDrift: a machine as Register leaves it has no drift but its silent peer, and each change shows.
func TestDrift(t *testing.T) {
	r, own := testSpec().Registration(), netip.MustParseAddr("10.0.0.11")
	registered := func() machine {
		m := machine{Owner: endpoint.ReadOwner(r.Record("cp1")), Report: parseReport(healthy, testPrefix)}
		m.Facts.Commands = map[string]string{"bird": "/usr/sbin/bird", "birdc": "/usr/sbin/birdc", "curl": "/usr/bin/curl"}
		m.Facts.Files, m.Facts.Units = map[string]host.FileState{}, map[string]host.UnitState{}
		for _, f := range files(r, own, m.Facts, testPasswords) {
			m.Facts.Files[f.Path] = host.FileState{Mode: f.Mode, Owner: "root", Group: "root", SHA256: sum(f.Content)}
		}
		for _, unit := range units() {
			m.Facts.Units[unit] = host.UnitState{Load: "loaded", Active: "active", Enabled: "enabled"}
		}
		return m
	}
	const silent = "session with peer 10.9.0.2 is not established (Active: Socket: Connection refused)"
	for name, c := range map[string]struct {
		alter func(*machine)
		want  string
	}{
		"nothing":   {func(*machine) {}, ""},
		"not there": {func(m *machine) { m.Owner = endpoint.Owner{} }, "not registered: the machine announces nothing"},
		"configuration": {
			func(m *machine) {
				m.Facts.Files[configPath] = host.FileState{Mode: 0o600, Owner: "root", Group: "root"}
			},
			configPath + ": content differs",
		},
		"mode": {func(m *machine) {
			f := m.Facts.Files[configPath]
			f.Mode = 0o644
			m.Facts.Files[configPath] = f
		}, configPath + ": mode is 0644, wanted 0600"},
		"owner": {func(m *machine) {
			f := m.Facts.Files[configPath]
			f.Owner = "bird"
			m.Facts.Files[configPath] = f
		}, configPath + ": owner is bird:root, wanted root:root"},
		"unit": {func(m *machine) { delete(m.Facts.Files, birdUnitPath) }, birdUnitPath + " is not there"},
		"failed": {
			func(m *machine) { m.Facts.Units[healthUnit] = host.UnitState{Load: "loaded", Active: "failed"} },
			healthUnit + " is failed",
		},
		"package": {func(m *machine) { delete(m.Facts.Commands, "curl") }, "curl is not completely installed"},
		"drained": {func(m *machine) { m.Report.Registered = false }, "out of rotation: " + agent.ErrDrained.Error()},
		"foreign": {
			func(m *machine) { m.Report.Foreign = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")} },
			"0.0.0.0/0 is announced",
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := registered()
			c.alter(&m)
			got := strings.Join(kind(testPasswords).Drift(r, "cp1", own, m), "\n")
			got = strings.TrimPrefix(strings.TrimSuffix(strings.TrimSuffix(got, silent), "\n"), "\n")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) || strings.Contains(got, "\n") {
				t.Errorf("drift is %q, want %q", got, c.want)
			}
		})
	}
	m := registered()
	if got := kind(testPasswords).Drift(r, "cp1", own, m); len(got) != 1 || got[0] != silent {
		t.Errorf("drift is %q", got)
	}
	m.Facts.Files[configPath] = host.FileState{}
	if got := kind(nil).Drift(r, "cp1", own, m); len(got) != 1 {
		t.Errorf("a configuration with an unknown password is compared: %q", got)
	}
}

// FuzzParseReport verifies that what a machine reports can be shown in a terminal, and names only
// sessions and prefixes.
func FuzzParseReport(f *testing.F) {
	f.Add(healthy)
	f.Add("protocol peer_10_0_0_1 BGP --- start x Active \x1b[2J\nexported peer_10_0_0_1 ::/0\n")
	f.Fuzz(func(t *testing.T, text string) {
		r := parseReport(text, testPrefix)
		for name, s := range r.Sessions {
			if !peerForm.MatchString(name) || s.Reason != "" && !reasonForm.MatchString(s.Reason) {
				t.Errorf("%q is parsed as session %q: %+v", text, name, s)
			}
		}
		for _, prefix := range r.Foreign {
			if !prefix.IsValid() || prefix == testPrefix {
				t.Errorf("%q is parsed as prefix %v", text, prefix)
			}
		}
	})
}

// TestReconfigures: only a machine that announces the address waits for its turn, whichever file differs: apply.sh
// restarts or reloads something for each.
func TestReconfigures(t *testing.T) {
	r, own := testSpec().Registration(), netip.MustParseAddr("10.0.0.11")
	m := machine{Owner: endpoint.ReadOwner(r.Record("cp1")), Report: parseReport(healthy, testPrefix)}
	m.Facts.Commands = map[string]string{"bird": "/usr/sbin/bird", "birdc": "/usr/sbin/birdc"}
	wanted := files(r, own, m.Facts, testPasswords)
	m.Facts.Files = map[string]host.FileState{}
	for _, f := range wanted {
		m.Facts.Files[f.Path] = host.FileState{SHA256: sum(f.Content), Mode: f.Mode, Owner: "root", Group: "root"}
	}
	if reconfigures(r, m, wanted) {
		t.Error("a machine with the wanted files waits")
	}
	drained := m
	drained.Report = parseReport("own\naddress\n", testPrefix)
	for _, path := range []string{
		configPath, healthPath, addressPath, birdUnitPath, agent.UnitDir + healthUnit, agent.UnitDir + addressUnit,
	} {
		as := m.Facts.Files[path]
		m.Facts.Files[path] = host.FileState{SHA256: sum([]byte("old")), Mode: as.Mode, Owner: "root", Group: "root"}
		if !reconfigures(r, m, wanted) {
			t.Errorf("a machine with the former %s does not wait", path)
		}
		if reconfigures(r, drained, wanted) {
			t.Errorf("a machine that announces nothing waits with the former %s", path)
		}
		m.Facts.Files[path] = as
	}
}

func sum(content []byte) string {
	digest := sha256.Sum256(content)
	return hex.EncodeToString(digest[:])
}
