package kubevip

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/agent"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/packages"
)

const testCluster = "0123456789abcdef0123456789abcdef"

var testOwn = netip.MustParseAddr("10.0.0.11")

func testSpec() Spec {
	return Spec{
		ClusterID: testCluster, Address: "10.0.0.100",
		Targets: map[string]string{"cp1": "10.0.0.11", "cp2": "10.0.0.12", "cp3": "10.0.0.13"},
	}
}

func TestRegistration(t *testing.T) {
	r := testSpec().Registration()
	if r.Kind != endpoint.KubeVIP || r.Port != 6443 || r.TargetPort != 6443 || r.DetectionTime != 0 {
		t.Errorf("registration is %+v", r)
	}
	want := endpoint.Election{Mode: "arp", Program: "/usr/local/bin/kube-vip", LeaseDuration: 5 * time.Second}
	if *r.KubeVIP != want {
		t.Errorf("the defaults are %+v", r.KubeVIP)
	}
	if err := ValidateRegistration(r); err != nil {
		t.Error(err)
	}
	if name, holders := LeaseOf(r); name != "kube-vip-10.0.0.100" || holders != name {
		t.Errorf("the Lease is %q, of %q", name, holders)
	}
	named := testSpec()
	named.LeaseName = "plndr-cp-lock"
	if name, holders := LeaseOf(named.Registration()); name != "plndr-cp-lock" || holders != "kube-vip-10.0.0.100" {
		t.Errorf("the Lease is %q, of %q", name, holders)
	}
	if name, _ := LeaseOf(endpoint.Registration{Kind: endpoint.BGP, Address: "10.0.0.100"}); name != "" {
		t.Errorf("another kind has the Lease %q", name)
	}
	if name := HoldersOf("fd00:95::100"); name != "kube-vip-fd00-0095-0000-0000-0000-0000-0000-0100" {
		t.Errorf("the Lease of an IPv6 address is %q", name)
	}
	several := endpoint.Registration{
		Kind: endpoint.DNS, Address: "api.example.org", Additional: []endpoint.Registration{r},
	}
	if name, _ := LeaseOf(several); name != "kube-vip-10.0.0.100" {
		t.Errorf("the Lease of an additional endpoint is %q", name)
	}
	several.Additional = append(several.Additional, bgpSpec().Registration())
	if held := HeldAt(several); !slices.Equal(held, []string{"10.0.0.100"}) {
		t.Errorf("one machine has %q", held)
	}
	announced := map[string]string{bgpSpec().Address: "http://127.0.0.1:21790/metrics"}
	if got := AnnouncedAt(several); !maps.Equal(got, announced) {
		t.Errorf("machines announce %v, want %v", got, announced)
	}
	if got := AnnouncedAt(r); len(got) > 0 {
		t.Errorf("with ARP, machines announce %v", got)
	}
}

func TestValidateRegistration(t *testing.T) {
	type altered = endpoint.Registration
	target := func(name, address string) func(*altered) {
		return func(r *altered) { r.Hosts = map[string]string{name: address} }
	}
	lease := func(d time.Duration) func(*altered) { return func(r *altered) { r.KubeVIP.LeaseDuration = d } }
	named := func(name string) func(*altered) { return func(r *altered) { r.KubeVIP.LeaseName = name } }
	device := func(name string) func(*altered) { return func(r *altered) { r.KubeVIP.Interface = name } }
	program := func(path string) func(*altered) { return func(r *altered) { r.KubeVIP.Program = path } }
	digest := func(text string) func(*altered) { return func(r *altered) { r.KubeVIP.SHA256 = text } }
	for name, c := range map[string]struct {
		alter func(*altered)
		want  string // "" is valid
	}{
		"a name":             {func(r *altered) { r.Address = "api.example.org" }, "is not an IP address"},
		"IPv6, targets IPv4": {func(r *altered) { r.Address = "fd00::100" }, "which is not of the family of fd00::100"},
		"another spelling":   {func(r *altered) { r.Address = "::ffff:10.0.0.100" }, "is not an IP address"},
		"IPv6 with zeros":    {func(r *altered) { r.Address = "fd00:0::100" }, "is not an IP address"},
		"a zone":             {func(r *altered) { r.Address = "fe80::1%eth0" }, "is not an IP address"},
		"IPv6": {func(r *altered) {
			r.Address, r.Hosts = "fd00::100", map[string]string{"a": "fd00::11", "b": "fd00::12"}
		}, ""},
		"loopback":           {func(r *altered) { r.Address = "127.0.0.1" }, "not an address that other"},
		"other kind":         {func(r *altered) { r.KubeVIP = nil }, "how its address is held"},
		"no targets":         {func(r *altered) { r.Hosts = nil }, "at least one target"},
		"the address":        {target("a", "10.0.0.100"), "the endpoint's own address"},
		"a target with IPv6": {target("a", "fd00::1"), "which is not of the family of 10.0.0.100"},
		"a target's name":    {target("a b", "10.0.0.11"), "a name that holds a Lease"},
		"no port":            {func(r *altered) { r.Port, r.TargetPort = 0, 0 }, "port 0"},
		"other port":         {func(r *altered) { r.TargetPort = 7443 }, "both are the same"},
		"a mode":             {func(r *altered) { r.KubeVIP.Mode = "table" }, "neither \"arp\" nor \"bgp\""},
		"interface":          {device("bond0.100"), ""},
		"interface, code":    {device("$(id)"), "not the name of an interface"},
		"interface, option":  {device("-x"), "not the name of an interface"},
		"interface, length":  {device("a234567890123456"), "not the name of an interface"},
		"program":            {program("/opt/kube-vip-1.2.3/kube-vip"), ""},
		"program, relative":  {program("kube-vip"), "not the absolute path"},
		"program, parent":    {program("/opt/../kube-vip"), "not the absolute path"},
		"program, code":      {program("/opt/$(id)"), "not the absolute path"},
		"program, none":      {program(""), "not the absolute path"},
		"digest":             {digest(strings.Repeat("0a", 32)), ""},
		"digest, upper case": {digest(strings.Repeat("0A", 32)), "64 hexadecimal digits"},
		"digest, short":      {digest("0a"), "64 hexadecimal digits"},
		"lease, named":       {named("plndr-cp-lock"), ""},
		"lease, upper case":  {named("Lock"), "is not the name of a Lease"},
		"lease, a group":     {named("system:masters"), "is not the name of a Lease"},
		"lease, code":        {named("$(id)"), "is not the name of a Lease"},
		"lease, shortest":    {lease(5 * time.Second), ""},
		"lease, longest":     {lease(time.Minute), ""},
		"lease, too short":   {lease(4 * time.Second), "lease duration 4s"},
		"lease, too long":    {lease(61 * time.Second), "lease duration 1m1s"},
		"lease, fraction":    {lease(5500 * time.Millisecond), "lease duration 5.5s"},
	} {
		t.Run(name, func(t *testing.T) {
			r := testSpec().Registration()
			c.alter(&r)
			err := ValidateRegistration(r)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// healthy is the output of state.sh on the machine that holds the Lease.
const healthy = `own eth0 24
registered
address
program
credential
running
lease
`

func TestParseReport(t *testing.T) {
	want := report{
		Device: "eth0", Network: netip.MustParsePrefix("10.0.0.0/24"), Registered: true, Address: true, Program: true,
		Credential: true, Running: true, Lease: true,
	}
	if got := parseReport(healthy, testOwn); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	want = report{Lease: true, Digest: true, Stale: true, Replaced: true}
	if got := parseReport("digest\nstale\nreplaced\nlease\n", testOwn); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	hostile := "own eth0;id 24\nown eth0 33\nown eth0 -1\nown eth0 x\nown eth0\nown eth0 24 x\nregistered no\n" +
		"lease \x1b[2J\nlease a b\nlease $(id)\nstranger 1\nunknown\n"
	if got := parseReport(hostile, testOwn); !reflect.DeepEqual(got, report{}) {
		t.Errorf("%+v", got)
	}
	for _, bits := range []string{"0", "32"} {
		if got := parseReport("own eth0 "+bits+"\n", testOwn); got.Device != "eth0" {
			t.Errorf("/%s is read as %+v", bits, got)
		}
	}
}

// FuzzParseReport verifies that what a machine reports can be shown in a terminal and used in a command.
func FuzzParseReport(f *testing.F) {
	f.Add(healthy)
	f.Add("own \x1b[2J 24\nlease \x1b[2J\n")
	f.Fuzz(func(t *testing.T, text string) {
		r := parseReport(text, testOwn)
		if r.Device != "" && (!interfaceForm.MatchString(r.Device) || !r.Network.IsValid()) {
			t.Errorf("%q is parsed as %+v", text, r)
		}
	})
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// registered is the machine of cp1 as Register leaves it.
func registered(r endpoint.Registration) machine {
	m := machine{Owner: endpoint.ReadOwner(r.Record("cp1")), Report: parseReport(healthy, testOwn)}
	m.Facts.Commands = map[string]string{"curl": "/bin/curl", "ip": "/bin/ip", "base64": "/bin/base64", "awk": "/bin/awk"}
	m.Facts.Files = map[string]host.FileState{}
	for _, f := range files(r, "cp1", testOwn, device(m, r)) {
		m.Facts.Files[f.Path] = host.FileState{
			Mode: f.Mode, Owner: "root", Group: "root", SHA256: digest(f.Content),
		}
	}
	m.Facts.Units = map[string]host.UnitState{unitName: {Load: "loaded", Active: "active", Enabled: "enabled"}}
	return m
}

func TestOutOfRotation(t *testing.T) {
	r := testSpec().Registration()
	for name, c := range map[string]struct {
		alter func(*machine)
		want  error
	}{
		"the holder":       {func(*machine) {}, nil},
		"another holder":   {func(m *machine) { m.Report.Address = false }, nil},
		"a stranger":       {func(m *machine) { m.Report.Stranger = true }, errStranger},
		"drained":          {func(m *machine) { m.Report.Registered = false }, agent.ErrDrained},
		"kube-vip is down": {func(m *machine) { m.Report.Running = false }, errNotRunning},
		"no Lease":         {func(m *machine) { m.Report.Lease = false }, errNoLease},
		"another endpoint": {func(m *machine) { m.Owner.Address = "10.0.0.101" }, endpoint.ErrOther},
	} {
		t.Run(name, func(t *testing.T) {
			m := registered(r)
			c.alter(&m)
			if err := outOfRotation(r, m); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Errorf("out of rotation because %v, want %v", err, c.want)
			}
		})
	}
}

// TestDrift: a machine as Register leaves it has no drift, and each change shows.
func TestDrift(t *testing.T) {
	r := testSpec().Registration()
	for name, c := range map[string]struct {
		alter func(*machine)
		want  string
	}{
		"nothing":   {func(*machine) {}, ""},
		"not there": {func(m *machine) { m.Owner = endpoint.Owner{} }, "not registered"},
		"another endpoint": {
			func(m *machine) { m.Owner.Address = "10.0.0.101" }, "the machine belongs to endpoint 10.0.0.101",
		},
		"agent": {
			func(m *machine) {
				m.Facts.Files[agentPath] = host.FileState{Mode: 0o755, Owner: "root", Group: "root"}
			}, agentPath + ": content differs",
		},
		"unit": {func(m *machine) { delete(m.Facts.Files, unitPath) }, unitPath + " is not there"},
		"failed": {
			func(m *machine) { m.Facts.Units[unitName] = host.UnitState{Load: "loaded", Active: "failed"} }, "is failed",
		},
		"stale":   {func(m *machine) { m.Report.Stale = true }, "with an earlier certificate"},
		"program": {func(m *machine) { m.Report.Replaced = true }, "an earlier program than /usr/local/bin/kube-vip"},
		"drained": {func(m *machine) { m.Report.Registered = false }, "out of rotation: " + agent.ErrDrained.Error()},
		"gone":    {func(m *machine) { m.Report.Program = false }, errNoProgram.Error()},
		"curl":    {func(m *machine) { delete(m.Facts.Commands, "curl") }, errNoCommand.Error() + ": curl"},
	} {
		t.Run(name, func(t *testing.T) {
			m := registered(r)
			c.alter(&m)
			got := strings.Join(kind(nil).Drift(r, "cp1", testOwn, m), "\n")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) || strings.Contains(got, "\n") {
				t.Errorf("drift is %q, want %q", got, c.want)
			}
		})
	}
}

func TestRequirements(t *testing.T) {
	wanted := strings.Repeat("0a", 32)
	nameless := testSpec().Registration()
	nameless.Address = "x"
	if err := requirements(registered(testSpec().Registration()), nameless); err == nil {
		t.Error("an address that is none is in the machine's network")
	}
	for name, c := range map[string]struct {
		alter func(*endpoint.Registration, *machine)
		want  error
	}{
		"nothing is missing": {func(*endpoint.Registration, *machine) {}, nil},
		"no awk":             {func(_ *endpoint.Registration, m *machine) { delete(m.Facts.Commands, "awk") }, errNoCommand},
		"no program":         {func(_ *endpoint.Registration, m *machine) { m.Report.Program = false }, errNoProgram},
		"another digest":     {func(r *endpoint.Registration, _ *machine) { r.KubeVIP.SHA256 = wanted }, errDigest},
		"the digest": {
			func(r *endpoint.Registration, m *machine) { r.KubeVIP.SHA256, m.Report.Digest = wanted, true }, nil,
		},
		"no own address": {func(_ *endpoint.Registration, m *machine) { m.Report.Device = "" }, errNoOwnAddress},
		"another network": {
			func(_ *endpoint.Registration, m *machine) { m.Report.Network = netip.MustParsePrefix("10.0.0.0/27") },
			errOtherNetwork,
		},
		"another network, and an interface for it": {func(r *endpoint.Registration, m *machine) {
			m.Report.Network, r.KubeVIP.Interface = netip.MustParsePrefix("10.0.0.0/27"), "eth1"
		}, nil},
		"another kube-vip": {func(_ *endpoint.Registration, m *machine) { m.Report.Foreign = true }, errOtherKubeVIP},
		"no kubeconfig":    {func(_ *endpoint.Registration, m *machine) { m.Report.Credential = false }, errNoCredential},
	} {
		t.Run(name, func(t *testing.T) {
			r := testSpec().Registration()
			m := registered(r)
			c.alter(&r, &m)
			if err := requirements(m, r); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}

func TestDevice(t *testing.T) {
	r := testSpec().Registration()
	if got := device(registered(r), r); got != "eth0" {
		t.Errorf("%q", got)
	}
	r.KubeVIP.Interface = "eth1"
	if got := device(registered(r), r); got != "eth1" {
		t.Errorf("%q, and the endpoint names another one", got)
	}
}

// TestRestarts: only a candidate whose kube-vip would be restarted waits for its turn.
func TestRestarts(t *testing.T) {
	r := testSpec().Registration()
	wanted := files(r, "cp1", testOwn, "eth0")
	for name, c := range map[string]struct {
		alter func(*machine)
		want  bool
	}{
		"nothing changes":     {func(*machine) {}, false},
		"another certificate": {func(m *machine) { m.Report.Stale = true }, true},
		"another program":     {func(m *machine) { m.Report.Replaced = true }, true},
		"another agent": {func(m *machine) {
			m.Facts.Files[agentPath] = host.FileState{Mode: 0o755, Owner: "root", Group: "root"}
		}, true},
		"another unit":         {func(m *machine) { m.Facts.Files[unitPath] = host.FileState{} }, true},
		"one that was drained": {func(m *machine) { m.Report.Stale, m.Report.Registered = true, false }, false},
	} {
		m := registered(r)
		c.alter(&m)
		if got := restarts(r, m, wanted); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestHolderOf(t *testing.T) {
	has, hasNot, lost := machine{Report: report{Address: true}}, machine{}, machine{Err: errors.New("unreachable")}
	for name, c := range map[string]struct {
		seen   map[string]machine
		holder string
		want   error
	}{
		"one":  {map[string]machine{"a": hasNot, "b": has, "c": lost}, "b", nil},
		"none": {map[string]machine{"a": hasNot, "b": lost}, "", errNotHeld},
		"two":  {map[string]machine{"a": has, "b": has, "c": hasNot}, "", errTwo},
	} {
		holder, err := holderOf(c.seen)
		if holder != c.holder || !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: %q, %v, want %q, %v", name, holder, err, c.holder, c.want)
		}
	}
}

// TestRenderAgent: the times follow from the duration of the Lease, values are quoted, and nothing names the
// endpoint as a server.
func TestRenderAgent(t *testing.T) {
	s := testSpec()
	s.LeaseDuration = 15 * time.Second
	text := renderAgent(s.Registration(), "cp1", testOwn, "eth0")
	have := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && have[name] == "" {
			have[name] = strings.Trim(value, "'")
		}
	}
	want := map[string]string{
		"duration": "15", "renew": "9", "retry": "3", "device": "eth0", "name": "cp1", "lease": "kube-vip-10.0.0.100",
		"url": "https://10.0.0.11:6443", "vip": "10.0.0.100",
	}
	maps.DeleteFunc(have, func(name, _ string) bool { return want[name] == "" })
	if !maps.Equal(have, want) {
		t.Errorf("%v, want %v", have, want)
	}
	if strings.Contains(text, "https://10.0.0.100") {
		t.Error("the agent asks the endpoint")
	}
}

// TestCurlIsKept: an endpoint of another kind that leaves the machine does not take curl from the agent.
func TestCurlIsKept(t *testing.T) {
	kept := strings.Fields(packages.DNS().WithRemoval("", nil).Vars["packages_kept"])
	if !slices.Contains(kept, configDir+":curl") {
		t.Errorf("kept %q", kept)
	}
}
