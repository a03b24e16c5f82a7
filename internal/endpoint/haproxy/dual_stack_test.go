package haproxy

import (
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

var update = flag.Bool("update", false, "write the files in testdata")

// singleStack returns endpoints with one virtual IP.
func singleStack() map[string]Spec {
	named := threeHosts()
	named.Port, named.VirtualRouterID, named.Interface, named.CACertificate = 7443, 51, "eth0", "PEM\n"
	return map[string]Spec{
		"three-hosts": threeHosts(), "settings": named,
		"alone": specOf("10.0.0.100", map[string]string{"cp1": "10.0.0.11"}),
		"ipv6":  specOf("fd00::100", map[string]string{"cp1": "fd00::11", "cp2": "fd00::12"}),
	}
}

// dualStack is threeHosts with a second virtual IP.
func dualStack() Spec {
	s := threeHosts()
	s.Address6 = "fd00::100"
	return s
}

// allRendered is the text of every file of the last host, the record and the registration.
func allRendered(s Spec) string {
	var all strings.Builder
	last := names(s.Hosts)[len(s.Hosts)-1]
	for _, file := range files(s, last, balancer{device: "eth0"}) {
		if file.Path != askPath && file.Path != reloadPath {
			all.WriteString("==> " + file.Path + "\n" + string(file.Content))
		}
	}
	all.WriteString("==> " + recordPath + "\n" + recordText(s))
	all.WriteString("==> registration\n" + s.Registration().Key() + "\n")
	return all.String()
}

// TestRenderedAsBefore: an endpoint with one virtual IP has the files that it had before there could
// be a second one, so that an upgrade of the provider is no drift. A deliberate change of them is
// written with -update.
func TestRenderedAsBefore(t *testing.T) {
	for name, s := range singleStack() {
		path := filepath.Join("testdata", "rendered", name+".txt")
		if *update {
			if err := os.WriteFile(path, []byte(allRendered(s)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := allRendered(s); got != string(want) {
			t.Errorf("%s: differs from %s:\n%s", name, path, strings.Join(lineDrift(name, got, string(want)), "\n"))
		}
	}
}

// TestRenderDualStack: the second virtual IP adds lines to the files, and changes none.
func TestRenderDualStack(t *testing.T) {
	got, single := allRendered(dualStack()), allRendered(threeHosts())
	want := []string{
		"bind [fd00::100]:6443 transparent", "virtual_ipaddress_excluded {", "fd00::100/128 dev eth0 preferred_lft 0",
		"ExecStopPost=-/bin/sh -c 'ip address delete fd00::100/128 dev eth0 2>/dev/null'",
		`"drain_timeout": 0,`, `"address6": "fd00::100"`, "}",
		`{"address":"10.0.0.100","address6":"fd00::100","port":6443,"hosts":{"cp1":"10.0.0.11","cp2":"10.0.0.12",` +
			`"cp3":"10.0.0.13"},"drain_timeout":10000000000,"verify_ca":false,"cluster_id":"` + testCluster + `"}`,
	}
	if added := subtract(got, single); !slices.Equal(added, want) {
		t.Errorf("added:\n%s", strings.Join(added, "\n"))
	}
	for _, line := range subtract(single, got) { // JSON needs a comma, and the registration is one line
		if !strings.Contains(line, "drain_timeout") {
			t.Errorf("removed: %s", line)
		}
	}
	if first := bindLine.FindStringSubmatch(renderHAProxy(dualStack()))[1]; first != "10.0.0.100:6443" {
		t.Errorf("the owner of the machine would be %s", first)
	}
}

func TestValidateAddress6(t *testing.T) {
	for _, c := range []struct{ address, address6, cause string }{
		{"10.0.0.100", "fd00::100", ""},
		{"10.0.0.100", "10.0.0.101", "not an IPv6 address"},
		{"10.0.0.100", "::ffff:10.0.0.101", `use "10.0.0.101"`},
		{"10.0.0.100", "fe80::1", "cannot be a virtual IP"},
		{"10.0.0.100", "fd00:0::100", `use "fd00::100"`},
		{"fd00::100", "fd00::101", "has an IPv4 address"},
	} {
		check(t, c.address6, ValidateAddress6(c.address, c.address6), c.cause)
	}
	s := dualStack()
	check(t, "the spec", s.validate(), "")
	s.Address6 = "10.0.0.101"
	check(t, "a spec with two IPv4 addresses", s.validate(), "not an IPv6 address")
}

// held adds addresses to a machine.
func held(b balancer, addresses ...string) balancer {
	for _, address := range addresses {
		b.local = append(slices.Clone(b.local), netip.MustParseAddr(address))
	}
	return b
}

// TestBothOnOneHost: the two virtual IPs are healthy only together.
func TestBothOnOneHost(t *testing.T) {
	s := dualStack()
	for name, c := range map[string]struct {
		hold    map[string][]string // host → virtual IPs
		drift   []string
		holders []string // of both
	}{
		"together": {map[string][]string{"cp2": {"10.0.0.100", "fd00::100"}}, nil, []string{"cp2"}},
		"apart": {
			map[string][]string{"cp1": {"10.0.0.100"}, "cp2": {"fd00::100"}},
			[]string{"10.0.0.100 is held by cp1, and fd00::100 by cp2"},
			nil,
		},
		"without the second": {
			map[string][]string{"cp1": {"10.0.0.100"}},
			[]string{"fd00::100 is held by none of the hosts"},
			nil,
		},
		"the second twice": {
			map[string][]string{"cp1": {"10.0.0.100", "fd00::100"}, "cp3": {"fd00::100"}},
			[]string{"fd00::100 is held by cp1 and cp3"},
			[]string{"cp1"},
		},
	} {
		seen := map[string]balancer{}
		for _, host := range names(s.Hosts) {
			seen[host] = held(asRendered(s, host), c.hold[host]...)
		}
		if got := status(s, seen).Drift; !reflect.DeepEqual(got, c.drift) {
			t.Errorf("%s: drift %q", name, got)
		}
		if got := allHealthy(s, seen); got != (c.drift == nil) {
			t.Errorf("%s: healthy is %v", name, got)
		}
		h := healthOf(s, seen)
		if got := h.HoldersOfAll(); !slices.Equal(got, c.holders) || !slices.Equal(h.Others, []string{"fd00::100"}) {
			t.Errorf("%s: both are on %q", name, got)
		}
		if second := holders(s.Address6, seen); !slices.Equal(h.HoldersOf(s.Address6), second) {
			t.Errorf("%s: the second is on %q, want %q", name, h.HoldersOf(s.Address6), second)
		}
	}
}

func TestPreflightDualStack(t *testing.T) {
	s := dualStack()
	for name, c := range map[string]struct {
		change func(b *balancer)
		cause  string
	}{
		"all well": {func(*balancer) {}, ""},
		"held by the endpoint": {func(b *balancer) {
			*b = held(*b, "10.0.0.100", "fd00::100")
			b.neighbors.By = map[string]string{"fd00::100": "02:01"}
		}, ""},
		"in use elsewhere": {func(b *balancer) {
			b.neighbors.By = map[string]string{"fd00::100": "02:01"}
		}, "fd00::100 is in use: cp1 sees it at hardware address 02:01"},
		"no IPv6": {func(b *balancer) { b.ipv6 = false }, "eth0 has no IPv6 address that other machines can reach"},
		"the machine's own": {func(b *balancer) {
			*b = held(*b, "fd00::100")
			clear(b.facts.Files)
		}, "fd00::100 is already an address of"},
		"its own, added now": {func(b *balancer) { *b = addedNow(*b, "fd00::100") }, "fd00::100 is already an address of"},
		"added once and cut off": {
			func(b *balancer) { *b = addedNow(*b, "10.0.0.100", "fd00::100") }, "",
		},
	} {
		b := asRendered(s, "cp1")
		c.change(&b)
		check(t, name, preflight(s, map[string]balancer{"cp1": b}), c.cause)
	}
}

// addedNow is a machine that has these addresses and the files of an endpoint with one virtual IP.
func addedNow(b balancer, addresses ...string) balancer {
	b.facts.Files[keepalivedPath] = host.FileState{Content: renderKeepalived(threeHosts(), "cp1", "eth0")}
	return held(b, addresses...)
}

func TestHasIPv6(t *testing.T) {
	const lines = "2: eth0    inet 10.0.0.11/24 scope global eth0\n2: eth0    inet6 fe80::1/64 scope link \n" +
		"2: eth0    inet6 fd00::100/128 scope global deprecated nodad\n3: eth1    inet6 fd01::1/64 scope global\n"
	for _, c := range []struct {
		more, device string
		want         bool
	}{
		{"", "eth0", false},
		{"", "eth1", true},
		{"", "", false},
		{"2: eth0    inet6 fd00::11/64 scope global\n", "eth0", true},
		{"2: eth0    inet6 nonsense scope global\n", "eth0", false},
	} {
		if got := hasIPv6(lines+c.more, c.device, []string{"10.0.0.100", "fd00::100"}); got != c.want {
			t.Errorf("%q on %q: %v", c.more, c.device, got)
		}
	}
}

// TestAllHostsAgreeOnAddress6: it is a setting that does not change while a host is unreachable.
func TestAllHostsAgreeOnAddress6(t *testing.T) {
	one, two := threeHosts(), dualStack()
	if one.rendersLike(two) || !two.rendersLike(dualStack()) {
		t.Error("a second virtual IP renders the same files")
	}
	seen := map[string]balancer{"cp1": asRendered(two, "cp1"), "cp2": {unreachable: host.ErrUnreachable}}
	check(t, "adding it", requireAllHosts(one, two, seen), "Endpoint 10.0.0.100 not changed")
	check(t, "keeping it", requireAllHosts(two, two, seen), "")
}

func TestImportDualStack(t *testing.T) {
	s := dualStack()
	for name, c := range map[string]struct {
		change func(facts host.Facts)
		cause  string
	}{
		"as rendered":    {func(host.Facts) {}, ""},
		"without record": {func(facts host.Facts) { delete(facts.Files, recordPath) }, ""},
		"one of them twice": {func(facts host.Facts) {
			text := strings.Replace(renderHAProxy(s), "[fd00::100]", "10.0.0.100", 1)
			facts.Files[endpointPath] = host.FileState{Content: text}
		}, "changed by hand"},
		"no address": {func(facts host.Facts) {
			text := strings.Replace(renderHAProxy(s), "[fd00::100]", "*", 1)
			facts.Files[endpointPath] = host.FileState{Content: text}
		}, "changed by hand"},
	} {
		facts := machineOf(s, "cp1", "eth0")
		c.change(facts)
		part, err := rendered(s.Hosts["cp1"], facts)
		check(t, name, err, c.cause)
		if err == nil && (part.imported().Address6 != "fd00::100" || part.imported().Address != "10.0.0.100") {
			t.Errorf("%s: %+v", name, part.imported())
		}
	}
}

// TestRegistrarKnowsBoth: what is derived from a registration observes both virtual IPs.
func TestRegistrarKnowsBoth(t *testing.T) {
	pool := &host.Pool{}
	registration := dualStack().Registration()
	machine := func(address string) *host.Host { return pool.Host(host.Target{Address: address}) }
	s := NewRegistrars(machine).For(registration).spec()
	if s.Address6 != "fd00::100" || registration.Address6 != "fd00::100" {
		t.Errorf("got %+v", s)
	}
	if threeHosts().Registration().Key() == registration.Key() {
		t.Error("observations of both endpoints would be shared")
	}
}

// withFurther is dualStack with two more virtual IPs.
func withFurther() Spec {
	s := dualStack()
	s.Further = []string{"10.0.1.100", "fd01::100"}
	return s
}

// TestRenderFurther: further virtual IPs add lines to the files, and change none.
func TestRenderFurther(t *testing.T) {
	got, fewer := allRendered(withFurther()), allRendered(dualStack())
	want := []string{
		"bind 10.0.1.100:6443 transparent", "bind [fd01::100]:6443 transparent", "10.0.1.100/32 dev eth0",
		"fd01::100/128 dev eth0 preferred_lft 0",
		"ExecStopPost=-/bin/sh -c 'ip address delete 10.0.1.100/32 dev eth0 2>/dev/null'",
		"ExecStopPost=-/bin/sh -c 'ip address delete fd01::100/128 dev eth0 2>/dev/null'",
	}
	for _, line := range want {
		if !strings.Contains(got, line+"\n") {
			t.Errorf("%q is not rendered", line)
		}
	}
	for _, line := range subtract(fewer, got) { // JSON needs a comma, and the registration is one line
		if !strings.Contains(line, "drain_timeout") && !strings.Contains(line, "address6") {
			t.Errorf("removed: %s", line)
		}
	}
	if withFurther().rendersLike(dualStack()) {
		t.Error("further virtual IPs render the same files")
	}
}

func TestValidateFurther(t *testing.T) {
	hosts := map[string]string{"cp1": "10.0.0.11"}
	for _, c := range []struct {
		address, address6 string
		further           []string
		cause             string
	}{
		{"10.0.0.100", "", nil, ""},
		{"10.0.0.100", "", []string{"10.0.1.100", "fd00::100"}, ""},
		{"fd00::100", "", []string{"fd00::101"}, ""},
		{"10.0.0.100", "", []string{"10.0.0.100"}, "is the endpoint's address already"},
		{"10.0.0.100", "fd00::100", []string{"fd00::100"}, "is the endpoint's address6 already"},
		{"10.0.0.100", "", []string{"10.0.1.100", "10.0.1.100"}, "is listed already"},
		{"10.0.0.100", "", []string{"10.0.0.11"}, "is the address of host cp1 already"},
		{"10.0.0.100", "", []string{"api.example.com"}, "is not an IP address"},
		{"10.0.0.100", "", []string{"127.0.0.2"}, "cannot be a virtual IP"},
		{"fd00::100", "", []string{"10.0.0.100"}, "is IPv4, and an endpoint with it has an IPv4 address"},
		{"10.0.0.100", "", make([]string, MostFurther+1), "at most 16 are supported"},
	} {
		check(t, strings.Join(c.further, " "), ValidateFurther(c.address, c.address6, c.further, hosts), c.cause)
	}
}

// TestFurtherOnOneHost: all virtual IPs are healthy only together.
func TestFurtherOnOneHost(t *testing.T) {
	s := withFurther()
	seen := map[string]balancer{}
	for _, host := range names(s.Hosts) {
		seen[host] = asRendered(s, host)
	}
	seen["cp2"] = held(seen["cp2"], s.vips()...)
	if drift := status(s, seen).Drift; len(drift) > 0 || !allHealthy(s, seen) ||
		!slices.Equal(healthOf(s, seen).HoldersOfAll(), []string{"cp2"}) {
		t.Errorf("together: %q", drift)
	}
	seen["cp2"] = held(asRendered(s, "cp2"), "10.0.0.100", "fd00::100", "fd01::100")
	seen["cp1"] = held(seen["cp1"], "10.0.1.100")
	want := []string{"10.0.0.100 is held by cp2, and 10.0.1.100 by cp1"}
	if drift := status(s, seen).Drift; !slices.Equal(drift, want) || allHealthy(s, seen) ||
		len(healthOf(s, seen).HoldersOfAll()) > 0 {
		t.Errorf("apart: %q", drift)
	}
}

func TestImportFurther(t *testing.T) {
	onlyFurther := threeHosts()
	onlyFurther.Further = []string{"fd00::100"}
	for name, c := range map[string]struct {
		s        Spec
		unknown  bool // there is no record
		address6 string
		further  []string
	}{
		"all":                             {withFurther(), false, "fd00::100", []string{"10.0.1.100", "fd01::100"}},
		"all, without a record":           {withFurther(), true, "fd00::100", []string{"10.0.1.100", "fd01::100"}},
		"IPv6 as a further one":           {onlyFurther, false, "", []string{"fd00::100"}},
		"IPv6 of one without record":      {onlyFurther, true, "fd00::100", nil},
		"with the record of another time": {withFurther(), false, "fd00::100", []string{"10.0.1.100", "fd01::100"}},
	} {
		facts := machineOf(c.s, "cp1", "eth0")
		if c.unknown {
			delete(facts.Files, recordPath)
		}
		if name == "with the record of another time" {
			facts.Files[recordPath] = host.FileState{Content: recordText(threeHosts())}
		}
		part, err := rendered(c.s.Hosts["cp1"], facts)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := part.imported(); got.Address6 != c.address6 || strings.Join(got.Further, " ") !=
			strings.Join(c.further, " ") {
			t.Errorf("%s: %q and %q", name, got.Address6, got.Further)
		}
	}
	facts := machineOf(withFurther(), "cp1", "eth0")
	text := strings.Replace(renderHAProxy(withFurther()), "10.0.1.100:6443", "10.0.1.100:6444", 1)
	facts.Files[endpointPath] = host.FileState{Content: text}
	if _, err := rendered(withFurther().Hosts["cp1"], facts); err == nil {
		t.Error("a virtual IP with another port is imported")
	}
}
