package haproxy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

const formerConfig = `! Configuration File for keepalived
global_defs {
    router_id LVS_DEVEL
}
vrrp_instance VI_1 {
    state MASTER
    virtual_router_id 51 # the guide's
    virtual_ipaddress {
        10.0.0.100/24 dev eth0
        # 10.0.0.7
    }
    virtual_ipaddress_excluded {
        fd00::100
    }
}
`

// TestParseFormer reads the addresses and the identifiers of instances, and nothing from comments.
func TestParseFormer(t *testing.T) {
	f := parseFormer(formerConfig)
	want := []netip.Addr{netip.MustParseAddr("10.0.0.100"), netip.MustParseAddr("fd00::100")}
	if !slices.Equal(f.addresses, want) || !slices.Equal(f.routerIDs, []int{51}) || f.includes {
		t.Errorf("%+v", f)
	}
	for _, text := range []string{"include /etc/keepalived/more.conf", "\tincluder x"} {
		if !parseFormer(text).includes {
			t.Errorf("%q includes nothing", text)
		}
	}
}

// balancerWith is a machine whose own services run with these configurations.
func balancerWith(keepalived, haproxy string) balancer {
	running := host.UnitState{Load: "loaded", Active: "active", Enabled: "enabled"}
	return balancer{facts: host.Facts{
		Units: map[string]host.UnitState{formerKeepalivedUnit: running, formerHAProxyUnit: running},
		Files: map[string]host.FileState{
			formerKeepalivedPath: {Content: keepalived}, formerHAProxyPath: {Content: haproxy},
		},
	}}
}

// TestInheritProblems: what would be lost with the former services, or would disturb the takeover, is refused.
func TestInheritProblems(t *testing.T) {
	const config = "frontend apiserver\n    bind *:8443\n    default_backend b\nlisten statistics\n    stats enable\n"
	for name, c := range map[string]struct {
		keepalived, haproxy, want string
	}{
		"the guide": {formerConfig, config, ""},
		"another service": {
			strings.NewReplacer("10.0.0.100", "10.0.0.9", "fd00::100", "fd00::9").Replace(formerConfig), config, "",
		},
		"one more address": {strings.Replace(formerConfig, "# 10.0.0.7", "10.0.0.7", 1), config, "also has 10.0.0.7"},
		"includes":         {formerConfig + "include other.conf\n", config, "includes other files"},
		"router id":        {strings.Replace(formerConfig, "51", "77", 1), config, "router id 77 too"},
		"more to balance": {
			formerConfig, config + "frontend web\x1b[2J\n    bind *:80\n", "(apiserver, web",
		},
		"another file": {formerConfig, "frontend x\n    bind *:84430\n", "only a HAProxy with that file"},
		"one more port": {
			formerConfig, strings.Replace(config, "bind *:8443\n", "bind *:8443\n    bind 10.0.0.1:443,:80\n", 1),
			"(10.0.0.1:443, :80)",
		},
		"only includes":     {"include other.conf\n", config, "includes other files"},
		"a virtual server":  {formerConfig + "virtual_server 10.0.0.8 80 {\n}\n", config, "addresses (virtual_server)"},
		"routes of its own": {formerConfig + "    virtual_routes {\n    }\n", config, "addresses (virtual_routes)"},
	} {
		t.Run(name, func(t *testing.T) {
			s := Spec{
				Address: "10.0.0.100", Further: []string{"fd00::100"}, Port: 8443, Inherit: true, HandOver: Prepare,
				VirtualRouterID: 77,
			}
			b := balancerWith(c.keepalived, c.haproxy)
			b.facts.Listeners = map[int]host.Listener{8443: {Process: "haproxy", Addresses: []string{"0.0.0.0"}}}
			got := strings.Join(inheritProblems(s, b), "; ")
			if (c.want == "") != (got == "") || !strings.Contains(got, c.want) || strings.Contains(got, "\x1b") {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestLeads: if the former services have moved the address while an apply was cut off, or were started again, the
// machine leads whose keepalived of the endpoint has it.
func TestLeads(t *testing.T) {
	vip := netip.MustParseAddr("10.0.0.100")
	has := func(waiting, keepalived string) balancer {
		b := balancerWith(keepalived, "")
		b.local = []netip.Addr{vip}
		b.facts.Files[waitingPath] = host.FileState{SHA256: sha256Hex([]byte(waiting))}
		return b
	}
	s := Spec{Address: vip.String(), Inherit: true, HandOver: Take}
	for want, seen := range map[string]map[string]balancer{
		"":  {"a": {}, "b": {}},
		"a": {"a": has("1\n", formerConfig), "b": {}},
		"b": {"a": has("1\n", formerConfig), "b": has("0\n", formerConfig), "c": {}},
		"c": {"a": has("0\n", formerConfig), "c": has("0\n", "")},
	} {
		if got := leads(s, seen); got != want {
			t.Errorf("%q leads, want %q", got, want)
		}
	}
}

// hostWith is a machine that has addresses, with these configurations of its own services.
func hostWith(keepalived string, addresses ...string) balancer {
	b := balancerWith(keepalived, "")
	for _, address := range addresses {
		b.local = append(b.local, netip.MustParseAddr(address))
	}
	return b
}

// hostsABC are hosts that nobody connects to.
func hostsABC() map[string]*host.Host {
	return specOf("10.0.0.100", map[string]string{"a": "10.0.0.1", "b": "10.0.0.2", "c": "10.0.0.3"}).Hosts
}

// electing is a machine on which the endpoint's keepalived runs, with what waitingPath has.
func electing(b balancer, waiting string) balancer {
	b.facts.Units[keepalivedUnit] = host.UnitState{Load: "loaded", Active: "active", Enabled: "enabled"}
	b.facts.Files[waitingPath] = host.FileState{SHA256: sha256Hex([]byte(waiting))}
	return b
}

// TestCheckInherit: only the former services or the endpoint's keepalived are known to have the address.
func TestCheckInherit(t *testing.T) {
	s := Spec{Address: "10.0.0.100", Inherit: true, HandOver: Take}
	for name, c := range map[string]struct {
		holder balancer
		passes bool
	}{
		"somebody else": {hostWith("", s.Address), false},
		"waits":         {electing(hostWith("", s.Address), "1\n"), false},
		"the endpoint":  {electing(hostWith("", s.Address), "0\n"), true},
	} {
		err := checkInherit(t.Context(), s, map[string]balancer{"a": c.holder, "b": {}})
		if (err == nil) != c.passes || err != nil && !problem.Untouched(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCheckTogether: no machine takes an address that another one has.
func TestCheckTogether(t *testing.T) {
	s := Spec{Address: "10.0.0.100", Further: []string{"10.0.0.101", "10.0.0.102"}, Hosts: hostsABC()}
	seen := map[string]balancer{"a": hostWith("", "10.0.0.100", "10.0.0.101"), "b": {}}
	if err := checkTogether(s, "a", seen); err != nil {
		t.Error(err)
	}
	seen["b"] = hostWith("", "10.0.0.101") // both have it while it moves
	if err := checkTogether(s, "a", seen); err != nil {
		t.Error(err)
	}
	seen["b"] = hostWith("", "10.0.0.102")
	if err := checkTogether(s, "a", seen); err == nil || !strings.Contains(err.Error(), "10.0.0.102 is there") {
		t.Error(err)
	}
}

// TestCheckReplicas: the address goes to no HAProxy without a replica that it reaches.
func TestCheckReplicas(t *testing.T) {
	s := threeHosts()
	served := func(status string) balancer {
		b := asRendered(s, "cp1")
		b.servers = []server{{Name: "cp1"}}
		b.stats = []stat{{Name: "cp1", Status: status}}
		return b
	}
	for name, c := range map[string]struct {
		b    balancer
		want string
	}{
		"a replica is up":      {served("UP"), ""},
		"no replica":           {balancer{stats: served("UP").stats}, "no replica is registered there"},
		"no replica is up":     {served("DOWN"), "reaches no replica from there"},
		"HAProxy is not there": {balancer{backends: served("UP").backends}, "reaches no replica from there"},
	} {
		check(t, name, checkReplicas(s, map[string]balancer{"cp1": served("UP"), "cp2": c.b}), c.want)
	}
}

// TestInheritDrift: until the former services have given everything to the endpoint, what remains is drift.
func TestInheritDrift(t *testing.T) {
	s := Spec{Address: "10.0.0.100", Port: 8443, Inherit: true, HandOver: Take}
	const config = "frontend apiserver\n    bind *:8443\n"
	for name, c := range map[string]struct {
		step string
		b    balancer
		want []string
	}{
		"nothing is left":     {Take, balancerWith("", ""), nil},
		"keepalived":          {Take, balancerWith(formerConfig, ""), []string{"keepalived.service still runs"}},
		"HAProxy":             {Take, balancerWith("", config), []string{"haproxy.service still takes connections"}},
		"both":                {Take, balancerWith(formerConfig, config), []string{"keepalived", "haproxy"}},
		"they have it so far": {Prepare, balancerWith(formerConfig, config), nil},
	} {
		s.HandOver = c.step
		got := inheritDrift(s, c.b)
		if len(got) != len(c.want) || !slices.EqualFunc(got, c.want, strings.Contains) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	s.HandOver = Prepare
	seen := map[string]balancer{"a": hostWith(formerConfig, s.Address)}
	if err := refuseToWait(s, seen); err != nil {
		t.Errorf("the former services have the address: %v", err)
	}
	s.Inherit = false
	if err := refuseToWait(s, seen); err == nil {
		t.Error("the endpoint has the address, and waits")
	}
	s.Inherit = true
	seen["a"] = hostWith("", s.Address)
	if err := refuseToWait(s, seen); err == nil {
		t.Error("the former services do not have the address, and the endpoint waits")
	}
	without := Spec{Address: s.Address, Port: s.Port, Hosts: hostsABC()}
	seen["a"] = balancerWith(formerConfig, config)
	if err := refuseFormer(without, without, seen); err != nil {
		t.Errorf("nothing was inherited: %v", err)
	}
	if err := refuseFormer(s, s, seen); err != nil {
		t.Errorf("it goes on: %v", err)
	}
}

// TestRefuseToReturn: services that have begun to give the address to the endpoint do not get it back, because they
// would not start with the machine.
func TestRefuseToReturn(t *testing.T) {
	s := Spec{Address: "10.0.0.100", Inherit: true, HandOver: Prepare, Hosts: hostsABC()}
	begun := hostWith(formerConfig)
	begun.facts.Files[givesPath] = host.FileState{}
	for name, c := range map[string]struct {
		b       balancer
		refused bool
	}{
		"nothing yet": {hostWith(formerConfig), false},
		"prepared":    {electing(hostWith(formerConfig), "1\n"), false},
		"disabled":    {begun, true},
		"elects":      {electing(hostWith(formerConfig), "0\n"), true},
	} {
		seen := map[string]balancer{"a": {}, "b": c.b}
		if err := refuseToReturn(s, seen); (err != nil) != c.refused {
			t.Errorf("%s: %v", name, err)
		}
		err := refuseFormer(s, Spec{Address: s.Address}, seen)
		if err == nil || strings.Contains(err.Error(), "destroy this endpoint") == c.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRefuseLeaving: no host leaves with a keepalived that would take the address.
func TestRefuseLeaving(t *testing.T) {
	leaving := Spec{Address: "10.0.0.100", Hosts: hostsABC()}
	for name, c := range map[string]struct {
		b       balancer
		refused bool
	}{
		"it could take it":    {hostWith(formerConfig), true},
		"it has another":      {hostWith(""), false},
		"it is not reachable": {balancer{unreachable: host.ErrUnreachable}, true},
	} {
		if err := refuseLeaving(leaving, leaving, map[string]balancer{"c": c.b}); (err != nil) != c.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPrepared: HAProxy listens at no address before the endpoint may take it, and the stop of keepalived removes none.
func TestPrepared(t *testing.T) {
	s := Spec{Address: "10.0.0.100", Port: 8443, Inherit: true, HandOver: Prepare}
	at := fmt.Sprintf("bind %s:%d", s.Address, s.Port)
	if text := renderHAProxy(s); strings.Contains(text, at) || !strings.Contains(text, preparedBind) {
		t.Error(text)
	}
	if text := renderKeepalivedUnit(s, "keepalived", "eth0"); strings.Contains(text, "address delete") {
		t.Error(text)
	}
	s.HandOver = Take
	if text := renderHAProxy(s); !strings.Contains(text, at) || strings.Contains(text, preparedBind) {
		t.Error(text)
	}
	if text := renderKeepalivedUnit(s, "keepalived", "eth0"); !strings.Contains(text, "address delete") {
		t.Error(text)
	}
	if s.watches() {
		t.Error("a watcher waits for a machine outside of the endpoint")
	}
}

// TestValidateInherit: two of the steps take the address from the hosts' own services.
func TestValidateInherit(t *testing.T) {
	for step, inherited := range map[string]bool{"": false, Prepare: true, Take: true, Release: false} {
		if err := ValidateInherit(true, step); (err == nil) != inherited {
			t.Errorf("%q: %v", step, err)
		}
		if err := ValidateInherit(false, step); err != nil {
			t.Error(err)
		}
	}
}
